"""Requests to model providers and their replies: recorded in the archive and kept inside the model's window.

No network access: the caller sends `Turn.body` and passes the reply back.
"""
