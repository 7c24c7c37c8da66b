"""Folding older history into summaries: when, what, and in which words."""
