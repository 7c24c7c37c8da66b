"""Requests to model providers and their replies: kept in the archive, held inside the model's window.

Nothing here talks to a network. The caller sends `Turn.body` wherever it likes and hands back what comes.
"""
