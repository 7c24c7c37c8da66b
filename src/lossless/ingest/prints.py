"""The prints of a window: how one is recognised that was shown before, has grown, or has moved on."""

from __future__ import annotations

import marshal
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from lossless.ingest.walk import SURE
from lossless.model.messages import Incoming, Message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lossless.model.messages import JsonObject
    from lossless.store.ingest_state import WindowMark

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


class Known(NamedTuple):
    """How many messages of a window were in the last one, and whether it may also have been fewer."""

    length: int
    is_ambiguous: bool = False


def known_part(mark: WindowMark | None, prints: bytes, head: int) -> Known | None:
    """How many messages of a window are the last window, or its end; None when it has to be laid over the rows.

    `head` is how many system prompts it begins with. A window that begins with the whole last one has grown. One that
    begins, behind the same prompts, with the end of the last one has moved on; the longest such end counts, if it is
    no coincidence and the window does not go on from the last one's beginning.
    """
    if mark is None or len(mark.chain) != _PRINT * mark.length:
        return None
    if prints.startswith(mark.chain):
        return Known(mark.length)
    start = _PRINT * head
    if mark.chain[:start] != prints[:start]:
        return None
    last, now = _pieces(mark.chain[start:]), _pieces(prints[start:])
    same_head = next((n for n, (a, b) in enumerate(zip(last, now, strict=False)) if a != b), min(len(last), len(now)))
    moved, shorter = _borders(now, last)
    if moved <= same_head or (moved < SURE and moved != len(now)):
        return None
    return Known(head + moved, is_ambiguous=shorter > 0)


def begins_as(mark: WindowMark, prints: bytes, head: int) -> bool:
    """Whether a window's first message, behind its system prompts, is the last window's, as far as that is known."""
    if len(mark.chain) != _PRINT * mark.length:
        return True
    place = slice(_PRINT * head, _PRINT * (head + 1))
    return mark.chain[place] == prints[place]


def is_cut_short(mark: WindowMark, prints: bytes, head: int) -> bool:
    """Whether a window begins as the last one did and does not go on from it: something may have been taken out."""
    return not prints.startswith(mark.chain) and begins_as(mark, prints, head)


def _pieces(prints: bytes) -> list[bytes]:
    return [prints[n : n + _PRINT] for n in range(0, len(prints), _PRINT)]


def _borders(now: Sequence[bytes], last: Sequence[bytes]) -> tuple[int, int]:
    """The lengths of the two longest beginnings of `now` that `last` ends with, 0 for none; linear."""
    if not now:
        return 0, 0
    shorter = [0] * len(now)
    length = 0
    for n in range(1, len(now)):
        while length and now[n] != now[length]:
            length = shorter[length - 1]
        length += now[n] == now[length]
        shorter[n] = length
    length = 0
    for piece in last:
        if length == len(now):
            length = shorter[length - 1]
        while length and piece != now[length]:
            length = shorter[length - 1]
        length += piece == now[length]
    return length, shorter[length - 1] if length else 0


def ends_as_it_begins(window: Sequence[Message | Incoming | JsonObject]) -> bool:
    """Whether the window's last messages are its first ones, so that it may have moved on and look the same."""
    size = len(window)
    starts = (n for n in range(1, size) if window[n] == window[0])
    return any(all(window[n + k] == window[k] for k in range(size - n)) for n in starts)
