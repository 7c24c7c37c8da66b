"""Asking a model: one callable in the core; providers, commands and guards behind it."""
