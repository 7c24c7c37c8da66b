"""Asking a model: one callable in the core, providers and commands behind it, guards beside it."""
