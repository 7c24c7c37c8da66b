"""Maintenance of an archive: verify, examine, repair, back up, prune, forget, rotate, and surgery on summaries."""
