"""`lcm import`: what comes in from other programs and other archives."""

from __future__ import annotations

from lossless.cli.commands import Entry, LazyGroup

_TRANSCRIPTS = "lossless.cli.import_transcripts"
_ARCHIVES = "lossless.cli.transfer"

import_ = LazyGroup(
    "import",
    help="Bring in transcripts of other programs, and archives.",
    entries={
        "openclaw": Entry(f"{_TRANSCRIPTS}:openclaw", "OpenClaw's session files."),
        "claude-code": Entry(f"{_TRANSCRIPTS}:claude_code", "Claude Code's projects and sessions."),
        "codex": Entry(f"{_TRANSCRIPTS}:codex", "Codex rollouts."),
        "pi": Entry(f"{_TRANSCRIPTS}:pi", "pi's sessions."),
        "jsonl": Entry(f"{_TRANSCRIPTS}:jsonl", "Messages as JSON lines or arrays."),
        "chatgpt": Entry(f"{_TRANSCRIPTS}:chatgpt", "A ChatGPT export."),
        "lossless-claw": Entry(f"{_ARCHIVES}:lossless_claw", "A lossless-claw database, or another archive."),
        "remnic": Entry(f"{_ARCHIVES}:remnic", "Remnic's own archive."),
        "archive": Entry(f"{_ARCHIVES}:archive", "A file of `lcm export archive`."),
    },
)
