"""Agents as people write them, one for each framework. They run in the framework's own environment."""
