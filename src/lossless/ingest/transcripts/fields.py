"""Fields of a transcript's records, of any kind: texts, numbers, objects, times, and the prompt as a title."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from lossless.formats.synthetic import without_evidence
from lossless.model.times import first_time


def text(record: dict[str, Any], *keys: str) -> str | None:
    """The first of these fields that is a non-empty string."""
    for key in keys:
        value = record.get(key)
        if isinstance(value, str) and value:
            return value
    return None


def integer(record: dict[str, Any], key: str) -> int | None:
    value = record.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def object(record: dict[str, Any], key: str) -> dict[str, Any]:
    """The object under `key`; an empty one when there is none."""
    value = record.get(key)
    return value if isinstance(value, dict) else {}


def objects(record: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """The objects in the list under `key`."""
    value = record.get(key)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def time(*values: Any) -> datetime | None:
    """The first valid time of these."""
    return first_time(values)


def message_time(message: dict[str, Any], *others: Any) -> datetime | None:
    """The time of a message: its own, else its envelope's."""
    return time(message.get("timestamp"), message.get("createdAt"), message.get("created_at"), *others)


def kind(record: dict[str, Any]) -> str:
    return text(record, "type") or "unknown"


#: The maximum length of a title made from a prompt.
MAX_TITLE_CHARS = 80
#: How much of a prompt is read for it.
_SEEN = 4000
#: What programs put before a prompt, or in its place: `<environment_context>…</environment_context>`.
_BLOCK = re.compile(r"\s*<([A-Za-z][\w-]*)(?:\s[^<>]*)?>.*?</\1>", re.DOTALL)
#: Prefixes of texts in place of a prompt that a program wrote.
_NOT_TYPED = (
    "Caveat: The messages below were generated",
    "[Request interrupted",
    "This session is being continued from a previous conversation",
    "# AGENTS.md instructions",
)
_REQUEST = "## My request for Codex:"


def title(content: Any) -> str | None:
    """A user's message as a title of one line; None for one that only a program wrote."""
    text = _prompt_text(content)
    if text.lstrip().startswith(_NOT_TYPED):
        return None
    if _REQUEST in text:
        text = text.partition(_REQUEST)[2]
    start = 0
    while found := _BLOCK.match(text, start):
        start = found.end()
    typed = text[start:].lstrip()[:_SEEN]
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in typed).split())
    if len(line) <= MAX_TITLE_CHARS:
        return line or None
    whole_words = line[:MAX_TITLE_CHARS].rpartition(" ")[0]
    return (whole_words if len(whole_words) > MAX_TITLE_CHARS // 2 else line[: MAX_TITLE_CHARS - 1]) + "…"


def _prompt_text(content: Any) -> str:
    """The text of a message, without images and tool results."""
    if isinstance(content, str):
        return content
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    texts = [block.get("text") for block in blocks if block.get("type") in ("text", "input_text")]
    typed = (text for text in texts if isinstance(text, str) and not text.lstrip().startswith(_NOT_TYPED))
    return "\n".join(typed)


def strip_evidence(content: Any) -> Any:
    """The content of a hook's words without our evidence; a text or a block that held nothing else is gone."""
    if isinstance(content, str):
        return without_evidence(content)
    if not isinstance(content, list):
        return content
    kept = []
    for item in content:
        text = item.get("text") if isinstance(item, dict) else item
        if not isinstance(text, str) or (rest := without_evidence(text)) == text:
            kept.append(item)
        elif rest.strip():
            kept.append(item | {"text": rest} if isinstance(item, dict) else rest)
    return kept
