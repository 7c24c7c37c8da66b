"""The values that everything else speaks in: frozen, without I/O."""
