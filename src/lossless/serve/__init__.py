"""Doors for programs: agents and others ask the archive through them."""
