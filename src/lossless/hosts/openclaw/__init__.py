"""OpenClaw: the Python side of the plugin in `bridges/openclaw`, which starts it and talks to it over pipes."""
