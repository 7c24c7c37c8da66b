"""Deciding what a batch or a window adds. Pure: events and rows in, a plan out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lossless.ingest.align import Alignment, SameEvent, align

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lossless.ingest.events import Event
    from lossless.store.messages import TailRow


@dataclass(frozen=True, slots=True)
class IngestPlan:
    """What to write for one call."""

    #: Events to store, in order.
    new: tuple[Event, ...] = ()
    #: Rows that get a host's entry id: an adopted row had none, a re-stamped one an id that is gone.
    stamps: tuple[tuple[int, str], ...] = ()
    #: Rows that a producer without entry ids brings for the first time.
    claims: tuple[int, ...] = ()
    #: Rows that leave the context because the host went on differently.
    abandoned: tuple[int, ...] = ()
    #: Rows that stand at the end of the context from now on, in this order: the host returned to a branch.
    revived: tuple[int, ...] = ()
    replayed: int = 0
    ambiguous: int = 0
    cause: str | None = None
    #: The stored row of each event of a window, None for a new one.
    places: tuple[int | None, ...] = ()


def plan_append(
    events: Sequence[Event],
    by_entry: Mapping[str, TailRow],
    by_event_key: Mapping[str, TailRow],
    adoptable: Sequence[TailRow] = (),
) -> IngestPlan:
    """These are new, but for those whose entry id or event key is stored, and copies by the other producer.

    `adoptable` are the newest rows of a conversation with two kinds of producers: a row that came without
    an entry id may be adopted by an event with one, and the other way round, each once and in order.
    """
    new: list[Event] = []
    stamps: dict[int, str] = {}
    claims: list[int] = []
    entries: set[str | None] = {*by_entry}
    keys: set[str | None] = set()
    cursor = 0
    for event in events:
        entry_id, key = event.entry_id, event.message.event_key
        if entry_id in entries or key in keys:
            continue
        row = by_event_key.get(key) if key is not None else None
        if row is None and (match := _adopt(event, adoptable, cursor)) is not None:
            row, cursor = adoptable[match], match + 1
        if row is None:
            new.append(event)
        elif entry_id is None:
            claims.append(row.id)
        elif row.entry_id is None and row.id not in stamps:
            stamps[row.id] = entry_id
        entries |= {entry_id} - {None}
        keys |= {key} - {None}
    return IngestPlan(tuple(new), tuple(stamps.items()), tuple(claims), replayed=len(events) - len(new))


def _adopt(event: Event, rows: Sequence[TailRow], start: int) -> int | None:
    """The first row from `start` on that the other producer brought and that is this very event."""
    for index in range(start, len(rows)):
        row = rows[index]
        free = row.entry_id is None if event.entry_id is not None else not row.claimed
        if free and row.fingerprint == event.fingerprint:
            return index
    return None


@dataclass(frozen=True, slots=True)
class Stored:
    """What is stored of a conversation, as far as a window needs it."""

    #: The newest visible rows, oldest first, and where the last window lay in them.
    rows: tuple[TailRow, ...]
    anchor: int | None = None
    anchor_end: int | None = None
    #: Rows of the window's entry ids and event keys, wherever they are.
    by_entry: Mapping[str, TailRow] = field(default_factory=dict)
    by_event_key: Mapping[str, TailRow] = field(default_factory=dict)

    def known(self, event: Event) -> TailRow | None:
        """The row that an entry id, else an event key, says an event is."""
        row = self.by_entry.get(event.entry_id) if event.entry_id is not None else None
        key = event.message.event_key
        return self.by_event_key.get(key) if row is None and key is not None else row


def plan_sync(
    events: Sequence[Event],
    stored: Stored,
    abandoned_rows: Callable[[int], Sequence[TailRow]],
    same_event: SameEvent | None = None,
) -> IngestPlan:
    """This is the host's window: what in it is new, and what of the stored tail is no longer in it.

    `abandoned_rows(seq)` gives the rows that left on a branch from that seq on, so that a host that
    returns to a branch finds it again. No entry id and no event key comes twice in `events`.
    """
    known = [stored.known(event) for event in events]
    alignment = _align(events, known, stored, same_event)
    matched = _matched(events, known, stored, alignment)
    abandoned: tuple[int, ...] = ()
    revived: tuple[int, ...] = ()
    if not any(matched) and stored.rows:
        revived = _return_to_branch(events, matched, abandoned_rows(1))
    elif any(matched):
        revived = _revive(events, matched, stored, abandoned_rows)
        if alignment.diverged_at is not None:
            there = {row.id for row in matched if row is not None}
            abandoned = tuple(row.id for row in stored.rows[alignment.diverged_at :] if row.id not in there)
    new = tuple(event for event, row in zip(events, matched, strict=True) if row is None)
    is_disjoint = bool(new and stored.rows and len(new) == len(events))
    return IngestPlan(
        new,
        stamps=_stamps(events, matched),
        claims=_claims(events, matched),
        abandoned=abandoned,
        revived=revived,
        replayed=len(events) - len(new),
        ambiguous=int(alignment.ambiguous and not all(event.entry_id for event in events)),
        cause="disjoint" if is_disjoint else "branch" if abandoned or revived else None,
        places=tuple(None if row is None else row.id for row in matched),
    )


def _align(
    events: Sequence[Event], known: Sequence[TailRow | None], stored: Stored, same_event: SameEvent | None
) -> Alignment:
    """Align by content around the rows that ids have decided."""
    decided = {row.id for row in known if row is not None}

    def is_copy(window_index: int, stored_index: int, *, alone: bool) -> bool:
        row = stored.rows[stored_index]
        if same_event is None or known[window_index] is not None or row.id in decided:
            return False
        return events[window_index].message.role == row.role and same_event(window_index, stored_index, alone=alone)

    return align(
        [event.fingerprint if row is None else _mark(row) for event, row in zip(events, known, strict=True)],
        [_mark(row) if row.id in decided else row.fingerprint for row in stored.rows],
        anchor=stored.anchor,
        anchor_end=stored.anchor_end,
        same_event=is_copy,
    )


def _mark(row: TailRow) -> bytes:
    """What stands for a row in place of its fingerprint, which is longer."""
    return row.id.to_bytes(8)


def _matched(
    events: Sequence[Event], known: Sequence[TailRow | None], stored: Stored, alignment: Alignment
) -> list[TailRow | None]:
    """The row of each event; an id decides, whatever the content says.

    A row whose own entry id is gone from the window is this event only when the window covers its place: the
    host has rewritten its history under new ids. Otherwise a new id is a new event, a genuine repeat.
    """
    covered, newest = _is_rewritten_window(stored, alignment), 0
    matched: list[TailRow | None] = []
    for event, row, place in zip(events, known, alignment.matched, strict=True):
        if row is not None:
            covered, newest = True, max(newest, row.seq)
        elif place is not None:
            row = stored.rows[place]
            has_other_id = event.entry_id is not None and row.entry_id is not None
            if has_other_id and (not covered or row.seq < newest):
                row = None
        matched.append(row)
    return matched


def _is_rewritten_window(stored: Stored, alignment: Alignment) -> bool:
    """Whether the whole last window is there again, from its first message on, and not just one text repeated."""
    if stored.anchor is None or stored.anchor_end is None:
        return False
    places = range(stored.anchor, stored.anchor_end)
    texts = {stored.rows[place].fingerprint for place in places}
    return len(texts) > 1 and set(places) <= set(alignment.matched)


def _return_to_branch(
    events: Sequence[Event], matched: list[TailRow | None], hidden: Sequence[TailRow]
) -> tuple[int, ...]:
    """Match a window that has nothing in common with what is visible with the rows that left on branches."""
    alignment = align([event.fingerprint for event in events], [row.fingerprint for row in hidden])
    for n, place in enumerate(alignment.matched):
        if place is not None and _is_back(events[n], hidden[place]):
            matched[n] = hidden[place]
    return tuple(row.id for row in matched if row is not None)


def _revive(
    events: Sequence[Event],
    matched: list[TailRow | None],
    stored: Stored,
    abandoned_rows: Callable[[int], Sequence[TailRow]],
) -> tuple[int, ...]:
    """Fill places of a window that goes on as an abandoned branch did; returns the rows that come back, in order."""
    visible = {row.id for row in stored.rows}
    end = max(n for n, row in enumerate(matched) if row is not None)
    starts = [row.seq for row in matched if row is not None and row.id not in visible]
    if None in matched[:end]:
        starts.append(1)
    if end + 1 < len(matched) and (last := matched[end]) is not None:
        starts.append(last.seq + 1)
    hidden = abandoned_rows(min(starts)) if starts else ()
    _match_branch(events, matched, end, hidden)
    back = {row.id for row in hidden}
    first = next((n for n, row in enumerate(matched) if row is not None and row.id in back), None)
    if first is None:
        return ()
    return tuple(row.id for row in matched[first:] if row is not None and row.id in visible | back)


def _match_branch(events: Sequence[Event], matched: list[TailRow | None], end: int, hidden: Sequence[TailRow]) -> None:
    """What follows the last known message may be the messages of an abandoned branch, in their order.

    Nothing new comes before a known message: what is unknown there may be any abandoned one.
    """
    free = [row for row in hidden if row not in matched]
    for n in [n for n in range(end) if matched[n] is None]:
        matched[n] = next((row for row in free if _is_back(events[n], row)), None)
        free = [row for row in free if row is not matched[n]]
    last = matched[end]
    rest = iter([row for row in free if last is not None and row.seq > last.seq])
    for n in range(end + 1, len(matched)):
        matched[n] = next((row for row in rest if _is_back(events[n], row)), None)


def _is_back(event: Event, row: TailRow) -> bool:
    """Whether an event is an abandoned row; a new entry id is a new event."""
    return row.fingerprint == event.fingerprint and (event.entry_id is None or row.entry_id is None)


def _stamps(events: Sequence[Event], matched: Sequence[TailRow | None]) -> tuple[tuple[int, str], ...]:
    """Rows without an id are adopted; rows whose id is gone from the window take the new one."""
    there = {event.entry_id for event in events}
    return tuple(
        (row.id, event.entry_id)
        for event, row in zip(events, matched, strict=True)
        if row is not None and event.entry_id is not None and (row.entry_id is None or row.entry_id not in there)
    )


def _claims(events: Sequence[Event], matched: Sequence[TailRow | None]) -> tuple[int, ...]:
    return tuple(
        row.id
        for event, row in zip(events, matched, strict=True)
        if row is not None and event.entry_id is None and not row.claimed
    )
