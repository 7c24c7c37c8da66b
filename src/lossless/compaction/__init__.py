"""Fold older history into summaries: when, what next, who writes, and how it is put in place."""
