"""The prints of a window: how one is recognised that was shown before, has grown, or has moved on."""

from __future__ import annotations

import marshal
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, cast

from lossless.ingest.match import overlap
from lossless.model.messages import Incoming, Message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lossless.model.messages import JsonObject

#: Marshal's second version has no references, so equal messages give equal bytes. Another Python that
#: writes other bytes only costs a slower comparison.
_MARSHAL = 2
_PRINT = 8
#: The prints of so many messages are remembered, of those that have fewer characters than this.
_REMEMBERED, _SHORT = 2_048, 4_096


def prints_of(window: Sequence[Message | Incoming | JsonObject]) -> bytes:
    """Eight bytes for each message of a window, in order: equal for messages that came in equal."""
    return b"".join([_print(item) for item in window])


def _print(item: Message | Incoming | JsonObject) -> bytes:
    if type(item) is dict and len(item) == 2 and next(iter(item)) == "role":
        role, content = item["role"], item.get("content")
        if type(role) is str and type(content) is str and len(content) < _SHORT:
            return _print_of_text(role, content)
    return blake2b(_bytes(item), digest_size=_PRINT).digest()


@lru_cache(maxsize=_REMEMBERED)
def _print_of_text(role: str, content: str) -> bytes:
    """The print of a message of one text; hosts show the same ones again and again."""
    return blake2b(_bytes({"role": role, "content": content}), digest_size=_PRINT).digest()


def _bytes(item: Message | Incoming | JsonObject) -> bytes:
    if isinstance(item, Incoming):
        return _bytes(item.message) + repr(item.entry_id).encode()
    if isinstance(item, Message) and item.body is None and item.parts:
        return repr(item).encode("utf-8", "surrogatepass")
    original = item.original if isinstance(item, Message) else item
    try:
        return marshal.dumps(cast("dict[str, Any]", original), _MARSHAL)
    except ValueError:  # a mapping of the host's own class
        return repr(original).encode("utf-8", "surrogatepass")


def pieces(prints: bytes) -> list[bytes]:
    """The print of each message."""
    return [prints[n : n + _PRINT] for n in range(0, len(prints), _PRINT)]


def common(one: bytes, other: bytes) -> int:
    """How many messages two windows begin with alike."""
    size = min(len(one), len(other))
    if one[:size] == other[:size]:
        return size // _PRINT
    low, high = 0, size // _PRINT  # equal up to `low`, not up to `high`
    while high - low > 1:
        middle = (low + high) // 2
        if one[_PRINT * low : _PRINT * middle] == other[_PRINT * low : _PRINT * middle]:
            low = middle
        else:
            high = middle
    return low


def moved_on(now: bytes, before: bytes) -> tuple[int, int]:
    """How many messages of a window are the end of the one before, and how many of these may be repeats; 0 if none.

    It is not one that has moved on when it begins as the one before did, or when what follows was in that, too.
    """
    size, open_ = overlap(pieces(now), pieces(before))
    if not size or size < common(now, before):
        return 0, 0
    shown, last = pieces(now), pieces(before)
    rest = shown[size:]
    if any(last.count(one) == 1 and shown.count(one) == 1 for one in rest if one in last):
        return 0, 0
    return size, open_


def is_cut_short(now: bytes, before: bytes) -> bool:
    """Whether a window begins as the last one did and does not go on from it: something may have been taken out."""
    return not now.startswith(before) and now[:_PRINT] == before[:_PRINT]


def may_have_moved(prints: bytes) -> int:
    """How many messages may be repeats when the same window comes again: it looks the same after it has moved on."""
    shown = pieces(prints)
    size, _ = overlap(shown, shown[1:]) if len(shown) > 1 else (0, 0)
    return len(shown) - size if size else 0
