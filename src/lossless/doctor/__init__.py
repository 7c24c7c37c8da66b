"""Looking after an archive: finding what is broken, and what helps."""
