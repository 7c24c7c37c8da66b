"""`lcm export`: archives and conversations for other programs, and for people."""

from __future__ import annotations

from lossless.cli.commands import Entry, LazyGroup

_PLACE = "lossless.cli.transfer_out"

export = LazyGroup(
    "export",
    help="Write archives and conversations for other programs, and for people.",
    entries={
        "archive": Entry(f"{_PLACE}:archive", "Everything in one file, from which it comes back exactly."),
        "lossless-claw": Entry(f"{_PLACE}:lossless_claw", "A database that lossless-claw opens as its own."),
        "remnic": Entry(f"{_PLACE}:remnic", "Into Remnic's own archive."),
        "jsonl": Entry(f"{_PLACE}:jsonl", "Messages as JSON lines, a file a conversation."),
        "markdown": Entry(f"{_PLACE}:markdown", "Conversations to read, as Markdown."),
        "html": Entry(f"{_PLACE}:html", "Conversations to read, as pages that need nothing else."),
    },
)
