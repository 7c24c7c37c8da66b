"""`lcm install` and `lcm uninstall`: what a host needs to use an archive."""

from __future__ import annotations

from lossless.cli.commands import Entry, LazyGroup

_AGENTS = "lossless.cli.install_agents"
_OPENCLAW = "lossless.cli.install_openclaw"

install = LazyGroup(
    "install",
    help="Give a host the hooks and tools that it needs.",
    entries={
        "claude-code": Entry(f"{_AGENTS}:install_claude_code", "Claude Code: hooks, MCP server, skill."),
        "codex": Entry(f"{_AGENTS}:install_codex", "Codex CLI: hooks, MCP server."),
        "openclaw": Entry(f"{_OPENCLAW}:install_openclaw", "OpenClaw: the context engine."),
    },
)

uninstall = LazyGroup(
    "uninstall",
    help="Take away from a host what `lcm install` gave it.",
    entries={
        "claude-code": Entry(f"{_AGENTS}:uninstall_claude_code", "Claude Code: hooks, MCP server, skill."),
        "codex": Entry(f"{_AGENTS}:uninstall_codex", "Codex CLI: hooks, MCP server."),
        "openclaw": Entry(f"{_OPENCLAW}:uninstall_openclaw", "OpenClaw: the context engine."),
    },
)
