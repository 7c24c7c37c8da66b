"""Logs: when, how severe, and which messages come again and again."""

from __future__ import annotations

import re
from collections import Counter

from lossless.files.explore.words import counted, item

_TIME = re.compile(
    r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2})?(?:[.,]\d{1,9})?(?:Z|[+-]\d{2}:?\d{2})?"
    r"|\d{2}/[A-Z][a-z]{2}/\d{4}:\d{2}:\d{2}:\d{2}"
    r"|[A-Z][a-z]{2} [ 0-3]\d \d{2}:\d{2}:\d{2}"
    r"|\d{2}:\d{2}:\d{2}[.,]\d{3}"
)
_NAMES = "TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|ERR|FATAL|CRITICAL|PANIC"
_LEVEL = re.compile(rf"(?:^|[ \t\[\"'=|(<:])({_NAMES})\b", re.MULTILINE)
_LEVEL_FIELD = re.compile(r"(?:level|severity|lvl)[\"']?\s{0,2}[=:]\s{0,2}[\"']?([a-zA-Z]{3,8})")
_SEVERE = re.compile(r"(?:^|[ \t\[\"'=|(<:])(?:ERROR|ERR|FATAL|CRITICAL|PANIC|error|fatal|critical)\b", re.MULTILINE)
_VARYING = re.compile(r"[0-9a-fA-F]{8,}|\d+")
_HEAD_CHARS = 160
#: Lines that decide whether it is a log; lines among which the most frequent messages are looked for.
_SAMPLE, _LOOKED_AT = 200, 10_000


def log_lines(text: str) -> str | None:
    """Span, levels, the first severe line and the most frequent messages; None when it is no log."""
    sample = [line for line in text[: _SAMPLE * 400].split("\n") if line.strip()][:_SAMPLE]
    if len(sample) < 5 or sum(map(_is_entry, sample)) < 0.6 * len(sample):
        return None
    rows = text.split("\n")
    step = len(rows) // _LOOKED_AT + 1
    heads = [row[:_HEAD_CHARS] for row in rows[::step]]
    lines = ["It is a log."]
    times = [found[0] for row in (*rows[:50], *rows[-50:]) if (found := _TIME.search(row[:_HEAD_CHARS]))]
    if times:
        lines.append(f"From {times[0]} to {times[-1]}.")
    levels = Counter(_LEVEL.findall(text)) or Counter(_LEVEL_FIELD.findall(text))
    if levels:
        lines.append(f"Levels: {counted(levels.most_common(8))}.")
    if (severe := _SEVERE.search(text)) is not None:
        start = text.rfind("\n", 0, severe.end()) + 1
        lines.append(f"First severe line: {item(text[start : start + _HEAD_CHARS].partition(chr(10))[0])}.")
    return "\n".join([*lines, *_frequent(heads, step)])


def _frequent(heads: list[str], step: int) -> list[str]:
    """The messages that come most often, numbers and ids aside; of a sample when there are many."""
    messages = Counter(_VARYING.sub("#", _TIME.sub("", head)).strip() for head in heads if head)
    often = [(message, count) for message, count in messages.most_common(5) if count > 1 and message]
    if not often:
        return []
    about = f" of one line in {step:,}" if step > 1 else ""
    return [f"Most frequent{about}: " + " | ".join(f"{count:,} × {item(message)}" for message, count in often) + "."]


def _is_entry(line: str) -> bool:
    head = line[:_HEAD_CHARS]
    return (
        _TIME.search(head[:60]) is not None or _LEVEL.search(head) is not None or _LEVEL_FIELD.search(head) is not None
    )
