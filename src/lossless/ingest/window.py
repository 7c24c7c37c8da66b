"""The host's window: how it is recognised, and how it is read against the archive."""

from __future__ import annotations

import marshal
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from lossless.ingest import events as incoming
from lossless.ingest.align import MAX_HEAD
from lossless.ingest.plan import Asking, IngestPlan, Stored, plan_append, plan_moved, plan_sync
from lossless.ingest.same import is_certain_copy, is_edited, is_rewritten
from lossless.ingest.synthetic import what_of_ours
from lossless.ingest.walk import SURE
from lossless.model.messages import Incoming, Message

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import tzinfo

    from lossless.ingest.events import Event, Skip
    from lossless.model.messages import JsonObject
    from lossless.store.archive import Archive
    from lossless.store.ingest_state import WindowMark
    from lossless.store.messages import TailRow

#: Marshal's second version has no references, so equal messages give equal bytes. Another Python that
#: writes other bytes only costs a slower comparison.
_MARSHAL = 2
_PRINT = 8
#: The prints of so many messages are remembered, of those that have fewer characters than this.
_REMEMBERED, _SHORT = 2_048, 4_096
#: Rows looked at beyond a window's own length when it is laid over the stored tail.
_TAIL_MARGIN = 256
#: How many messages of a window are looked up to find an old place, and how often a rare one is stored at most.
_PROBES, _RARE = 32, 16


@dataclass(frozen=True, slots=True)
class Window:
    """What was read of a window: its system prompts, its other messages, and what is not kept."""

    preamble: tuple[Event, ...]
    events: tuple[Event, ...]
    skips: tuple[Skip, ...]
    #: How many messages were read, with those that the window itself holds twice.
    size: int
    #: Whether words of ours are in it, which stand for others.
    has_ours: bool = False


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


def system_head(window: Sequence[Message | Incoming | JsonObject]) -> int:
    """How many system prompts a window begins with."""
    head = 0
    for item in window:
        body = item.message if isinstance(item, Incoming) else item
        role = body.role if isinstance(body, Message) else body.get("role")
        if role not in ("system", "developer"):
            break
        head += 1
    return head


def ends_as_it_begins(window: Sequence[Message | Incoming | JsonObject]) -> bool:
    """Whether the window's last messages are its first ones, so that it may have moved on and look the same."""
    size = len(window)
    starts = (n for n in range(1, size) if window[n] == window[0])
    return any(all(window[n + k] == window[k] for k in range(size - n)) for n in starts)


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


def read_window(
    archive: Archive,
    conversation_id: int,
    window: Sequence[Message | Incoming | JsonObject],
    timezone: tzinfo | None,
    first: int = 0,
) -> Window:
    """Decode a window without what we put into it: summaries, cues, stubs and pins are no part of what was said."""
    events, skips = incoming.read(window, first)
    kept: list[Event] = []
    ids: set[str | None] = set()
    unreadable = len(skips)
    for event in events:
        known = {event.entry_id, event.message.event_key} - {None}
        if (what := what_of_ours(archive, conversation_id, event.message, timezone)) is not None:
            skips.append(incoming.Skip(event.index, what))
        elif known.isdisjoint(ids):
            kept.append(event)
            ids |= known
    head = 0
    while first == 0 and head < len(kept) and kept[head].message.role == "system":
        head += 1
    return Window(tuple(kept[:head]), tuple(kept[head:]), tuple(skips), len(window), len(skips) > unreadable)


def plan_grown(archive: Archive, conversation_id: int, events: Sequence[Event]) -> IngestPlan:
    """The window begins with the last one and nothing was stored since: the rest is new, but for known ids."""
    entry_ids, event_keys = ids_of(events)
    by_entry = archive.messages.known_entries(conversation_id, entry_ids)
    return plan_append(events, by_entry, archive.messages.known_events(conversation_id, event_keys))


def plan_aligned(
    archive: Archive,
    conversation_id: int,
    events: Sequence[Event],
    mark: WindowMark | None,
    *,
    may_change: bool = False,
    in_use: frozenset[str] = frozenset(),
) -> IngestPlan:
    """Lay the window over the newest rows, and over older ones when it does not begin among those.

    In a host's window messages may be edited, and notices come and go; a transcript holds only what was said, and has
    ids `in_use` on other branches.
    """
    if mark is not None and (plan := _plan_moved(archive, conversation_id, events, mark)) is not None:
        return plan

    def plan_over(rows: Sequence[TailRow], *, is_whole: bool) -> IngestPlan:
        in_place = in_order(rows, archive.context.ordinals(conversation_id, len(rows)))
        stored = _stored(archive, conversation_id, events, in_place, mark, is_whole=is_whole)
        stored = replace(stored, in_use=in_use)
        asking = _asking(archive, conversation_id, events, in_place)
        return plan_sync(events, stored, asking if may_change else replace(asking, notices=None, is_edited=None))

    limit = 2 * max(len(events), mark.length if mark else 0) + _TAIL_MARGIN
    rows = archive.messages.tail(conversation_id, limit)
    is_whole = len(rows) < limit
    plan = plan_over(rows, is_whole=is_whole)
    if not events or is_whole or _begins_among(archive, conversation_id, events, rows, plan):
        return plan
    start = _older_start(archive, conversation_id, events)
    if start is None or start >= rows[0].seq:
        return plan
    return plan_over(archive.messages.run_from(conversation_id, start), is_whole=start <= 1)


def _plan_moved(archive: Archive, conversation_id: int, events: Sequence[Event], mark: WindowMark) -> IngestPlan | None:
    """Most windows begin among the rows of the last one: those are enough for them."""
    rows = archive.messages.tail(conversation_id, mark.length + 1)
    stored = _stored(archive, conversation_id, events, rows, mark, is_whole=False)
    return plan_moved(events, stored, _asking(archive, conversation_id, events, rows))


def _begins_among(
    archive: Archive, conversation_id: int, events: Sequence[Event], rows: Sequence[TailRow], plan: IngestPlan
) -> bool:
    """Whether the window's beginning is found in these rows, but for an edit or a notice that stands nowhere else."""
    ids = {row.id for row in rows}
    known = [n for n, place in enumerate(plan.places) if place in ids]
    if not known or known[0] > MAX_HEAD or 2 * len(known) < len(plan.places):
        return False
    head = list(plan.notices)
    if known[0]:
        apart = {event.index for event in head}
        head += [event for event in events if event.index not in apart][: known[0]]
    there = {one.fingerprint for one in archive.context.preamble(conversation_id)[0]} if head else set()
    unknown = [event.identity for event in head if event.fingerprint not in there]
    seqs = [seq for identity in unknown for seq in archive.messages.seqs_of_identity(conversation_id, identity, _RARE)]
    return min(seqs, default=rows[0].seq) >= rows[0].seq


def _asking(archive: Archive, conversation_id: int, events: Sequence[Event], rows: Sequence[TailRow]) -> Asking:
    loaded: dict[int, Message] = {}

    def load(stored_index: int) -> Message:
        row_id = rows[stored_index].id
        if row_id not in loaded:
            loaded[row_id] = archive.messages.get(row_id).message
        return loaded[row_id]

    def same_event(window_index: int, stored_index: int, *, alone: bool) -> bool:
        message = events[window_index].message
        return (is_certain_copy if alone else is_rewritten)(load(stored_index), message)

    return Asking(
        abandoned_rows=lambda seq: archive.messages.abandoned_from(conversation_id, seq),
        notices=lambda: [one.fingerprint for one in archive.context.preamble(conversation_id)[0] if one.is_notice],
        same_event=same_event,
        is_edited=lambda window_index, stored_index: is_edited(load(stored_index), events[window_index].message),
    )


def in_order(rows: Sequence[TailRow], ordinals: Mapping[int, int]) -> list[TailRow]:
    """Rows as the host shows them: an edited message stands in the context where the old version stood.

    `ordinals` are the places of those rows that are in the context; the others stand where they were stored.
    """
    highest = -1
    kept: list[TailRow] = []
    moved: list[TailRow] = []
    for row in rows:
        ordinal = ordinals.get(row.id)
        if ordinal is not None and ordinal < highest:
            moved.append(row)
            continue
        kept.append(row)
        highest = highest if ordinal is None else ordinal
    for row in sorted(moved, key=lambda row: -ordinals[row.id]):
        at = next(n for n, other in enumerate(kept) if ordinals.get(other.id, -1) > ordinals[row.id])
        kept.insert(at, row)
    return kept


def _stored(
    archive: Archive,
    conversation_id: int,
    events: Sequence[Event],
    rows: Sequence[TailRow],
    mark: WindowMark | None,
    *,
    is_whole: bool,
) -> Stored:
    place = {row.id: n for n, row in enumerate(rows)}
    anchor = place.get(mark.first_id) if mark and mark.first_id is not None else None
    last = mark.last_id if mark and mark.last_id in place else None
    entry_ids, event_keys = ids_of(events)
    return Stored(
        tuple(rows),
        anchor,
        None if anchor is None or last is None else 1 + max(n for n, row in enumerate(rows) if row.id <= last),
        mark is None or mark.is_begun_again,
        is_whole,
        archive.messages.known_entries(conversation_id, entry_ids),
        archive.messages.known_events(conversation_id, event_keys),
    )


def _older_start(archive: Archive, conversation_id: int, events: Sequence[Event]) -> int | None:
    """The seq from which on rows are read when a window may be an old one shown again: where its rarest text stands."""
    best: tuple[int, int] | None = None
    for n, event in enumerate(events[:_PROBES]):
        seqs = archive.messages.seqs_of_identity(conversation_id, event.identity, _RARE)
        if seqs and (best is None or len(seqs) < best[0]):
            best = (len(seqs), max(1, seqs[-1] - n - _TAIL_MARGIN))
        if best is not None and best[0] == 1:
            break
    return None if best is None else best[1]


def ids_of(events: Sequence[Event]) -> tuple[list[str], list[str]]:
    """The entry ids and the event keys of a batch."""
    entry_ids = [event.entry_id for event in events if event.entry_id is not None]
    return entry_ids, [event.message.event_key for event in events if event.message.event_key is not None]
