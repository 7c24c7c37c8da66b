"""Looking after an archive: verify, examine, repair, back up, prune, forget, rotate, and change what summaries say."""
