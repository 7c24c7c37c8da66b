"""Store what hosts hand over: each message once, whatever the host does.

Windows, batches and transcript entries are read, compared with what is stored, and written in one transaction.
"""
