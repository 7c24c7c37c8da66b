"""From the context to a prompt: what fits, which tool calls pair, how it reads. Pure but for `run`."""
