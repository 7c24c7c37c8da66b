"""Values that the whole package shares: frozen, and without I/O except for `paths`."""
