"""Requests to model providers and their replies: recorded in the archive and kept inside the model's window.

Nothing here talks to a network; the caller sends `Turn.body` and hands back what comes.
"""
