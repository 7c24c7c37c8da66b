"""The extractive leaf: what a run of messages said, in their own words."""

from __future__ import annotations

import json
from datetime import timedelta
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING

from lossless.compaction.extractive.draft import Entry, Units, compose
from lossless.compaction.extractive.files import PATH_KEYS, arguments, files_line, touched
from lossless.compaction.extractive.split import units, without_interjection
from lossless.compaction.fallback import is_directive
from lossless.compaction.source_text import local_time, stamp
from lossless.model.senders import sender_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from lossless.compaction.source_text import Line, ToolInput

#: A pause this long, or a new day, gets a new time heading.
_PAUSE = timedelta(hours=1)
_MOST_USER_FACTOR = 6.0
_FACTORS = {"assistant": 1.0, "system": 0.5, "tool": 0.25}
_QUESTION_FACTOR = 0.6
_CODE_FACTOR = 0.4
_INPUT_FACTOR = 0.8
_EDGE_FACTOR = 2.0
#: So many units at either end of an output are its edges.
_FIRST, _LAST = 2, 3
#: Of a long output this many rows at either end are looked at.
_EDGE_ROWS = 60
_FAILURE_SIGNS = ("rror", "RROR", "ail", "FAIL", "xception", "enied", "atal", "anic", "arning")
_INPUT_CHARS = 200
_ARGUMENT_CHARS = 80
_FILES_SHARE = 0.6  # characters for each token of the limit: 15 %


def extract(
    lines: Sequence[Line], target_tokens: int, *, source_tokens: int | None = None, timezone: str = "UTC"
) -> str | None:
    """A summary made of the lines' own sentences, smaller than the target and than the source.

    None when that cannot be. `source_tokens` is what the messages weigh in the context, when that is
    not the size of their text. The same lines give the same summary, anywhere.
    """
    weight = sum(line.tokens for line in lines) if source_tokens is None else source_tokens
    limit = min(target_tokens, weight) - 1
    if limit <= 0:
        return None
    user_factor = _user_factor(lines)
    entries: list[Entry] = []
    found = Units()
    for line, heading in zip(lines, _headings(lines, timezone), strict=True):
        for entry, texts, factors in _voices(line, heading, user_factor):
            found.add(len(entries), texts, factors)
            entries.append(entry)
    return compose(entries, found, files_line(touched(lines), int(_FILES_SHARE * limit)), (), limit)


def _voices(line: Line, heading: str, user_factor: float) -> Iterator[tuple[Entry, list[str], list[float]]]:
    """Who speaks in a line, each with the units of what it says and their weights."""
    if line.role == "tool":
        yield Entry("tool output", heading, "tool"), *_printed(line.text)
    elif line.text:
        label = f"{line.role} ({name})" if (name := _speaker(line.sender)) else line.role
        yield Entry(label, heading, line.role), *_said(line, user_factor)
    for call in line.inputs:
        yield Entry(f"ran {_one_line(call.name, 40)}", heading), [_asked(call)], [_INPUT_FACTOR]
    for output in line.outputs:
        label = f"{_one_line(output.name or 'tool', 40)} {'failed' if output.is_error else 'output'}"
        yield Entry(label, heading, "assistant" if output.is_error else "tool"), *_printed(output.text)


def _said(line: Line, user_factor: float) -> tuple[list[str], list[float]]:
    """What a person or a model said; code in it counts less, and so do a model's questions."""
    is_user = line.role == "user"
    factor = user_factor if is_user else _FACTORS[line.role]
    texts: list[str] = []
    factors: list[float] = []
    for place, passage in enumerate(line.text.split("```")):
        share = factor * _CODE_FACTOR if place % 2 else factor
        found = units(passage)
        texts += map(without_interjection, found)
        asked = share if is_user else share * _QUESTION_FACTOR
        factors += [asked if unit[-1] in "?？" else share for unit in found]
    return texts, factors


def _printed(text: str) -> tuple[list[str], list[float]]:
    """What a tool printed: its first and last rows, and those between that may speak of a failure."""
    rows = text.splitlines()
    if len(rows) > 2 * _EDGE_ROWS:
        middle = (row for row in rows[_EDGE_ROWS:-_EDGE_ROWS] if any(sign in row for sign in _FAILURE_SIGNS))
        text = "\n".join(chain(rows[:_EDGE_ROWS], middle, rows[-_EDGE_ROWS:]))
    pieces = units(text)
    edge, inner = _FACTORS["tool"] * _EDGE_FACTOR, _FACTORS["tool"]
    if len(pieces) <= _FIRST + _LAST:
        return pieces, [edge] * len(pieces)
    return pieces, [edge] * _FIRST + [inner] * (len(pieces) - _FIRST - _LAST) + [edge] * _LAST


@lru_cache(maxsize=256)
def _speaker(sender: str | None) -> str:
    """The name in a sender's metadata; '' when there is none, or when it reads like an order."""
    name = sender_name(sender)
    return "" if is_directive(name) else name


def _asked(call: ToolInput) -> str:
    """A tool call in one short row: its command alone, or its arguments by name."""
    given = arguments(call)
    if not given:
        return _one_line(call.text, _INPUT_CHARS)
    shown = {key: value if isinstance(value, str) else json.dumps(value, default=str) for key, value in given.items()}
    if "command" in shown:
        return _one_line(shown["command"], _INPUT_CHARS)
    short = [
        value if key in PATH_KEYS else f"{key}={value}"
        for key, value in shown.items()
        if len(value) <= _ARGUMENT_CHARS and "\n" not in value
    ]
    return _one_line(", ".join(short) or next(iter(shown.values())), _INPUT_CHARS)


def _headings(lines: Sequence[Line], timezone: str) -> Iterator[str]:
    """The time over each line: that of the first line after a pause or since midnight."""
    heading = ""
    previous: datetime | None = None
    for line in lines:
        moment = local_time(line.created_at, timezone)
        if previous is None or abs(moment - previous) >= _PAUSE or moment.date() != previous.date():
            heading = stamp(moment, timezone)
        previous = moment
        yield heading


def _user_factor(lines: Sequence[Line]) -> float:
    """How much a user's words count: the rarer they are among all others, the more."""
    by_user = sum(len(line.text) for line in lines if line.role == "user")
    by_others = sum(
        sum(len(output.text) for output in line.outputs) + (len(line.text) if line.role != "user" else 0)
        for line in lines
    )
    return min(_MOST_USER_FACTOR, max(1.0, by_others / max(1, by_user)))


def _one_line(text: str, most: int) -> str:
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most else line[: most - 1] + "…"
