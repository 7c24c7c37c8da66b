"""From the stored context to a prompt: read, choose, repair and render. Only `read` accesses the archive."""
