"""Hosts that make one message of neighbours with the same role: our own words in it are told apart again."""

from __future__ import annotations

import re
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from lossless.formats.synthetic import PINNED_TEXT
from lossless.ingest.synthetic import what_of_ours
from lossless.model.messages import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lossless.engine import Engine
    from lossless.model.conversations import Session

Raw = dict[str, Any]
#: How hosts join texts, and where a text of ours may end; so many places are tried.
_JOINT = "\n\n"
_ENDS = re.compile(r"\n\n|\Z")
_MARKS = ("<", "[", PINNED_TEXT[:6])
_SUMMARY, _SUMMARY_ENDS = "<summary ", re.compile(r"(?<=</summary>)(?:\n\n|\Z)")
_TRIES = 64


def parted(engine: Engine, session: Session, window: Iterable[Raw]) -> list[Raw]:
    """The window with our own texts, and what was joined to them, as messages of their own."""
    found = engine.archive.conversations.find(session)
    if found is None:
        return list(window)
    zone = ZoneInfo(engine.settings.timezone) if engine.settings.timezone else None
    is_ours = partial(what_of_ours, engine.archive, found.id, timezone=zone)
    return [part for message in window for part in _parts(message, is_ours)]


def _parts(message: Raw, is_ours: Callable[[Message], str | None]) -> Iterator[Raw]:
    text = message.get("content")
    if message.get("role") != "user" or not isinstance(text, str):
        yield message
        return
    rest = text
    while rest and (end := _end_of_ours(rest, is_ours)):
        yield {"role": "user", "content": rest[:end]}
        rest = rest[end + len(_JOINT) :]
    if rest or not text:
        yield message if rest == text else message | {"content": rest}


def _end_of_ours(text: str, is_ours: Callable[[Message], str | None]) -> int | None:
    """Where the text of ours ends that this text begins with; None when it begins with none."""
    if not text.startswith(_MARKS):
        return None
    ends = (_SUMMARY_ENDS if text.startswith(_SUMMARY) else _ENDS).finditer(text)
    places = (found.start() for found in islice(ends, _TRIES))
    return next((end for end in places if is_ours(Message("user", text[:end], tokens=0)) is not None), None)
