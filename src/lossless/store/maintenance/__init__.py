"""Reads and writes of the archive that only maintenance uses."""
