"""The host's window: how it is read against the archive, and what is remembered of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lossless.ingest import events as incoming
from lossless.ingest.align import MAX_HEAD
from lossless.ingest.plan import Asking, IngestPlan, Stored, plan_append, plan_moved, plan_sync
from lossless.ingest.same import is_certain_copy, is_edited, is_rewritten
from lossless.ingest.synthetic import what_of_ours
from lossless.model.messages import Incoming, Message
from lossless.store.ingest_state import WindowMark

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, tzinfo

    from lossless.ingest.events import Event, Skip
    from lossless.model.messages import JsonObject
    from lossless.store.archive import Archive
    from lossless.store.messages import TailRow

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


@dataclass(frozen=True, slots=True)
class Seen:
    """A window against the archive: what of it is new, and the marks of the last one and of this one."""

    window: Window
    plan: IngestPlan
    before: WindowMark | None
    mark: WindowMark
    #: Whether it goes on from the last one, so that only the rest of it was read.
    follows: bool


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


def remember(archive: Archive, conversation_id: int, seen: Seen, ids: Sequence[int], now: datetime) -> None:
    """Note what a window covered whose new rows are `ids`; an old one shown again does not replace a newer one."""
    before, plan = seen.before, seen.plan
    if seen.follows and before is not None:
        first, last = seen.mark.first_id, ids[-1] if plan.new and ids else before.last_id
    else:
        fresh = iter(ids[len(ids) - len(plan.new) :])
        places = [next(fresh) if place is None else place for place in plan.places]
        if not places:
            return
        first, last = places[0], max(places)
        older = before is not None and before.last_id is not None and last < before.last_id
        if older and not plan.revived and not plan.new and not plan.abandoned:
            return
    archive.ingest.set_window(conversation_id, WindowMark(first, last, seen.mark.length, seen.mark.chain), now)


def ids_of(events: Sequence[Event]) -> tuple[list[str], list[str]]:
    """The entry ids and the event keys of a batch."""
    entry_ids = [event.entry_id for event in events if event.entry_id is not None]
    return entry_ids, [event.message.event_key for event in events if event.message.event_key is not None]
