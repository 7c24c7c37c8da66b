"""The frame that a chat host puts around a user's words, without what changes from delivery to delivery.

A frame is a chain of blocks: the conversation, then maybe its sender, then maybe a recap of the chat. A block is
a heading, a fence of JSON below it, and an empty line before the next. A paragraph that starts with `Delivery:`
may stand in front. Whatever departs from this by a character is the user's own text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lossless.model.js_json import parse, stringify

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lossless.model.messages import Json

_DELIVERY = "Delivery:"
_CONVERSATION = "Conversation info (untrusted metadata):"
_SENDER = "Sender (untrusted metadata):"
_GAP = "\n\n"
_OPEN = "\n```json\n"
_CLOSE = "\n```"
_PER_DELIVERY = frozenset(("message_id", "reply_to_id", "timestamp"))
_PER_RECAP = _PER_DELIVERY | {"history_count", "history_media_count", "history_truncated"}
#: No host nests its metadata deeper; the limit keeps the answer independent of the caller's stack.
_DEEPEST = 32


class _Fenced(NamedTuple):
    value: Json
    end: int


class _Framed(NamedTuple):
    """A text in its frame: the frame as it stays the same, whether a stable key is in it, and the words beside it."""

    frame: str
    is_stable: bool
    said: str


def canonical_frame(content: str) -> str:
    """`content` with its frame reduced to what stays the same; unchanged when there is none.

    Also unchanged when no stable key remains in the frame, or no words beside it: the volatile keys are then
    all that tells two messages apart. Keys are sorted at the top level of a block; all else stays as it is.
    """
    found = _framed(content)
    if found is None or not found.is_stable or not found.said.strip():
        return content
    return found.frame + found.said


def words_in_frame(content: str) -> str | None:
    """What the user said, without the frame around it; None when there is no frame, or nothing in it."""
    found = _framed(content)
    return None if found is None else found.said.strip() or None


def _framed(content: str) -> _Framed | None:
    start, gap = 0, ""
    if content.startswith(_DELIVERY):
        start, gap = content.find(_GAP), _GAP
    block = _fenced_at(content, start, gap + _CONVERSATION)
    if block is None or not isinstance(block.value, dict):
        return None
    has_history = _follows_history(block.value)
    volatile = _PER_RECAP if has_history else _PER_DELIVERY
    stable = {key: value for key, value in block.value.items() if key not in volatile}
    frame = content[:start] + gap + _written(_CONVERSATION, stable)
    end = block.end
    sender = _fenced_at(content, end, _GAP + _SENDER)
    if sender is not None and isinstance(sender.value, dict):
        frame += _GAP + _written(_SENDER, sender.value)
        end = sender.end
    if has_history:
        end = _recap_end(content, end)
    return _Framed(frame, bool(stable), content[end:])


def _fenced_at(text: str, at: int, heading: str) -> _Fenced | None:
    """The block with this heading at `at`, up to the first line that closes its fence."""
    opening = heading + _OPEN
    if at < 0 or not text.startswith(opening, at):
        return None
    start = at + len(opening)
    close = text.find(_CLOSE, start)
    end = close + len(_CLOSE)
    if close < 0 or text[end : end + 1] not in ("", "\n"):
        return None
    try:
        value: Json = parse(text[start:close])
    except ValueError:
        return None
    return _Fenced(value, end) if _is_shallow(value) else None


def _written(heading: str, record: Mapping[str, Json]) -> str:
    return heading + _OPEN + stringify(dict(sorted(record.items()))) + _CLOSE


def _recap_end(text: str, at: int) -> int:
    """Where the recap that begins at `at` ends; `at` when there is none.

    A recap is a block headed `Chat history … (untrusted…):` whose JSON is a list of objects, at least one.
    """
    line_start = at + len(_GAP)
    heading = text[line_start : text.find("\n", line_start)]
    if not (heading.startswith("Chat history") and "(untrusted" in heading and heading.endswith(":")):
        return at
    block = _fenced_at(text, at, _GAP + heading)
    if block is None or not isinstance(block.value, list) or not block.value:
        return at
    return block.end if all(isinstance(entry, dict) for entry in block.value) else at


def _follows_history(info: Mapping[str, Json]) -> bool:
    """Whether `history_count` is a whole number above zero; `2.0` is one, as in JavaScript."""
    count = info.get("history_count")
    if isinstance(count, bool) or not isinstance(count, int | float):
        return False
    return count > 0 and count % 1 == 0


def _is_shallow(value: Json) -> bool:
    level: list[Json] = [value]
    for _ in range(_DEEPEST):
        below: list[Json] = []
        for item in level:
            if isinstance(item, dict):
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
        if not below:
            return True
        level = below
    return False
