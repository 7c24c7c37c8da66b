"""Writing anew: single summaries, subtrees, and briefs that stand for what a question needs."""
