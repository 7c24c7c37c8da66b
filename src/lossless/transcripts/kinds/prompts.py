"""What a transcript may be called when nothing in it gives it a title: the first thing that a person asked."""

from __future__ import annotations

import re
from typing import Any

#: The longest title that is made of a prompt.
LONGEST = 80
#: So much of a prompt is looked at for it.
_SEEN = 4000
#: What programs put in front of a prompt, or in its place: `<environment_context>…</environment_context>`.
_BLOCK = re.compile(r"\s*<([A-Za-z][\w-]*)(?:\s[^<>]*)?>.*?</\1>", re.DOTALL)
#: How texts begin that stand where a prompt would, and that nobody typed.
_NOT_TYPED = (
    "Caveat: The messages below were generated",
    "[Request interrupted",
    "This session is being continued from a previous conversation",
    "# AGENTS.md instructions",
)
_REQUEST = "## My request for Codex:"


def prompt_of(content: Any) -> str | None:
    """A user's message as a title of one line; None for one that only a program has written."""
    text = _words(content)
    if text.lstrip().startswith(_NOT_TYPED):
        return None
    if _REQUEST in text:
        text = text.partition(_REQUEST)[2]
    start = 0
    while found := _BLOCK.match(text, start):
        start = found.end()
    typed = text[start:].lstrip()[:_SEEN]
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in typed).split())
    if len(line) <= LONGEST:
        return line or None
    whole_words = line[:LONGEST].rpartition(" ")[0]
    return (whole_words if len(whole_words) > LONGEST // 2 else line[: LONGEST - 1]) + "…"


def _words(content: Any) -> str:
    """The text of a message, without pictures and the answers of tools."""
    if isinstance(content, str):
        return content
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    texts = [block.get("text") for block in blocks if block.get("type") in ("text", "input_text")]
    typed = (text for text in texts if isinstance(text, str) and not text.lstrip().startswith(_NOT_TYPED))
    return "\n".join(typed)
