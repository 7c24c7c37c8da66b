"""Stores what hosts send: each message exactly once.

Windows, batches and transcript entries are read, compared with what is stored, and written in one transaction.
"""
