"""Reads and writes that only maintenance uses."""
