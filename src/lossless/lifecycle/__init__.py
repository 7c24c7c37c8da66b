"""The life of sessions and of the archive: transcripts, beginnings and endings, rotation, backups, retention."""
