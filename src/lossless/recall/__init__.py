"""Recall: search, evidence, describe, expand and answer over an archive, read only."""
