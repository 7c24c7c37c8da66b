"""Looking after an archive: finding what is broken, writing summaries anew, focus, and cleaning up."""
