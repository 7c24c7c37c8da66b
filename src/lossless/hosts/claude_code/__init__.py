"""Claude Code, and hosts whose hooks speak as it does: what they call, what they get back, how they are set up."""
