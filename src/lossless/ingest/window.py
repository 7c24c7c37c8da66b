"""The host's window: how it is recognised, and how it is read against the archive."""

from __future__ import annotations

import marshal
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, cast

from lossless.ingest import events as incoming
from lossless.ingest.plan import IngestPlan, Stored, plan_append, plan_sync
from lossless.ingest.same import is_rewritten, is_same_result
from lossless.ingest.synthetic import what_of_ours
from lossless.model.messages import Incoming, Message

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import tzinfo

    from lossless.ingest.events import Event, Skip
    from lossless.model.messages import JsonObject
    from lossless.store.archive import Archive
    from lossless.store.ingest_state import WindowMark
    from lossless.store.messages import TailRow

#: Marshal's second version has no references, so equal messages give equal bytes. Another Python that
#: writes other bytes only costs a slower comparison.
_MARSHAL = 2
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


def chains(window: Sequence[Message | Incoming | JsonObject], at: int) -> tuple[bytes | None, bytes]:
    """One hash over the messages in order: after `at` of them (None when there are fewer), and after all."""
    chain = blake2b(digest_size=16)
    middle = chain.digest() if at == 0 else None
    for count, item in enumerate(window, 1):
        chain.update(_bytes(item))
        if count == at:
            middle = chain.copy().digest()
    return middle, chain.digest()


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
    return Window(tuple(kept[:head]), tuple(kept[head:]), tuple(skips), len(window))


def plan_grown(archive: Archive, conversation_id: int, events: Sequence[Event]) -> IngestPlan:
    """The window begins with the last one and nothing was stored since: the rest is new, but for known ids."""
    entry_ids, event_keys = ids_of(events)
    by_entry = archive.messages.known_entries(conversation_id, entry_ids)
    return plan_append(events, by_entry, archive.messages.known_events(conversation_id, event_keys))


def plan_aligned(
    archive: Archive, conversation_id: int, events: Sequence[Event], mark: WindowMark | None
) -> IngestPlan:
    """Lay the window over the newest rows, and over older ones when it does not begin among those."""
    limit = 2 * max(len(events), mark.length if mark else 0) + _TAIL_MARGIN
    rows = archive.messages.tail(conversation_id, limit)
    plan = _plan_over(archive, conversation_id, events, rows, mark)
    if not events or len(rows) < limit or any(row.id == plan.places[0] for row in rows):
        return plan
    start = _older_start(archive, conversation_id, events)
    if start is None or start >= rows[0].seq:
        return plan
    return _plan_over(archive, conversation_id, events, archive.messages.run_from(conversation_id, start), mark)


def _plan_over(
    archive: Archive, conversation_id: int, events: Sequence[Event], rows: Sequence[TailRow], mark: WindowMark | None
) -> IngestPlan:
    stored = _stored(archive, conversation_id, events, rows, mark)
    loaded: dict[int, Message] = {}

    def same_event(window_index: int, stored_index: int, *, alone: bool) -> bool:
        row_id = rows[stored_index].id
        if row_id not in loaded:
            loaded[row_id] = archive.messages.get(row_id).message
        message = events[window_index].message
        return is_same_result(loaded[row_id], message) if alone else is_rewritten(loaded[row_id], message)

    def abandoned_rows(seq: int) -> Sequence[TailRow]:
        return archive.messages.abandoned_from(conversation_id, seq)

    return plan_sync(events, stored, abandoned_rows, same_event)


def _stored(
    archive: Archive, conversation_id: int, events: Sequence[Event], rows: Sequence[TailRow], mark: WindowMark | None
) -> Stored:
    place = {row.id: n for n, row in enumerate(rows)}
    anchor = place.get(mark.first_id) if mark and mark.first_id is not None else None
    last = place.get(mark.last_id) if mark and mark.last_id is not None else None
    entry_ids, event_keys = ids_of(events)
    return Stored(
        tuple(rows),
        anchor,
        None if anchor is None or last is None else last + 1,
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
