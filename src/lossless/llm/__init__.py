"""Calling a language model: one callable for the core; providers, commands and guards behind it."""
