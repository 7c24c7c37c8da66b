"""Servers over an archive: MCP and the provider proxy."""
