"""Deciding what a batch or a window adds. Pure: events and rows in, a plan out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from lossless.ingest.align import Alignment, align, overlap
from lossless.ingest.branches import return_to_branch, revive
from lossless.ingest.edits import Edits, Last, Seen, find_edits
from lossless.model.messages import MADE_UP

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lossless.ingest.events import Event
    from lossless.ingest.walk import SameEvent
    from lossless.store.messages import TailRow


#: More messages that say something else at once are a host's new way to show them.
_MAX_EDITED = 2


@dataclass(frozen=True, slots=True)
class Inserted:
    """New events, by `Event.index`, that stand before the first of these rows that is in the context."""

    events: tuple[int, ...]
    before: tuple[int, ...]


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
    #: The stored row of each event of a window, None for a new one; notices are not among them.
    places: tuple[int | None, ...] = ()
    #: New events that do not stand at the end of the context.
    insertions: tuple[Inserted, ...] = ()
    #: What the host says for the moment: it stands at the head of the context, in place of what it said before.
    notices: tuple[Event, ...] = ()
    #: Rows that were such a notice, though that was not known then.
    superseded: tuple[int, ...] = ()


class IsCopy(Protocol):
    """Tells whether an event is a rewritten copy of a row; `alone` asks whether that is certain by itself."""

    def __call__(self, event: Event, row: TailRow, *, alone: bool) -> bool: ...


def plan_append(
    events: Sequence[Event],
    by_entry: Mapping[str, TailRow],
    by_event_key: Mapping[str, TailRow],
    adoptable: Sequence[TailRow] = (),
    is_copy: IsCopy | None = None,
) -> IngestPlan:
    """These are new, but for those whose entry id or event key is stored, and copies by the other producer.

    `adoptable` are the newest rows of a conversation with two kinds of producers: a row that came without
    an entry id may be adopted by an event with one, and the other way round, each once and in order. `is_copy`
    recognises one that a host has framed, redacted or shortened on one of the two ways.
    """
    new: list[Event] = []
    stamps: dict[int, str] = {}
    claims: list[int] = []
    entries: set[str | None] = {*by_entry}
    keys: set[str | None] = set()
    cursor = 0
    for n, event in enumerate(events):
        entry_id, key = event.entry_id, event.message.event_key
        if entry_id in entries or key in keys:
            continue
        row = by_event_key.get(key) if key is not None else None
        if row is None:
            match = _adopt(event, adoptable, cursor)
            if match is None and is_copy is not None:
                match = _adopt_copy(events[n : n + 2], adoptable, cursor, is_copy)
            if match is not None:
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
        if _is_free(rows[index], event) and rows[index].fingerprint == event.fingerprint:
            return index
    return None


def _is_free(row: TailRow, event: Event) -> bool:
    return row.entry_id is None if event.entry_id is not None else not row.claimed


def _adopt_copy(two: Sequence[Event], rows: Sequence[TailRow], start: int, is_copy: IsCopy) -> int | None:
    """The next row of the other producer, when the event is a rewritten copy of it.

    That is certain by itself, or the event after it is the row after that one.
    """
    event = two[0]
    free = [index for index in range(start, len(rows)) if _is_free(rows[index], event)][:2]
    if not free or rows[free[0]].role != event.message.role:
        return None
    is_followed = len(two) == len(free) == 2 and two[1].fingerprint == rows[free[1]].fingerprint
    return free[0] if is_copy(event, rows[free[0]], alone=not is_followed) else None


@dataclass(frozen=True, slots=True)
class Stored:
    """What is stored of a conversation, as far as a window needs it."""

    #: The newest visible rows in their order, and where the last window lay in them.
    rows: tuple[TailRow, ...]
    anchor: int | None = None
    anchor_end: int | None = None
    #: Whether the window begins with the very message that the last one began with.
    is_begun_again: bool = True
    #: Whether these are all.
    is_whole: bool = False
    #: Rows of the window's entry ids and event keys, wherever they are.
    by_entry: Mapping[str, TailRow] = field(default_factory=dict)
    by_event_key: Mapping[str, TailRow] = field(default_factory=dict)
    #: Ids that are not in the window and still in use: a transcript keeps the branches that were left.
    in_use: frozenset[str] = frozenset()

    def known(self, event: Event) -> TailRow | None:
        """The row that an entry id, else an event key, says an event is; a notice is known by its words."""
        row = self.by_entry.get(event.entry_id) if event.entry_id is not None else None
        key = event.message.event_key
        row = self.by_event_key.get(key) if row is None and key is not None else row
        return None if row is None or row.is_preamble else row


@dataclass(frozen=True, slots=True)
class Asking:
    """What a plan asks for only when it needs it."""

    #: The rows that left on a branch from a seq on, so that a host that returns to a branch finds it again.
    abandoned_rows: Callable[[int], Sequence[TailRow]]
    #: The fingerprints of the notices that the context begins with; None where nothing is edited or noticed.
    notices: Callable[[], Sequence[bytes]] | None = None
    same_event: SameEvent | None = None
    #: Whether a message of the window says something else than the row that it resembles; None where it is a copy.
    is_edited: Callable[[int, int], bool] | None = None


def plan_sync(events: Sequence[Event], stored: Stored, asking: Asking) -> IngestPlan:
    """This is the host's window: what in it is new, and what of the stored tail is no longer in it.

    No entry id and no event key comes twice in `events`.
    """
    known = [stored.known(event) for event in events]
    return _plan_along(events, known, stored, asking, _align(events, known, stored, asking.same_event))


def plan_moved(events: Sequence[Event], stored: Stored, asking: Asking) -> IngestPlan | None:
    """The plan for a window that plainly has moved on, for which the newest rows are enough; None for another one."""
    known = [stored.known(event) for event in events]
    alignment = overlap(*_marks(events, known, stored))
    return None if alignment is None else _plan_along(events, known, stored, asking, alignment)


def _plan_along(
    events: Sequence[Event],
    known: Sequence[TailRow | None],
    stored: Stored,
    asking: Asking,
    alignment: Alignment,
) -> IngestPlan:
    matched = _matched(events, known, stored, alignment)
    _unmatch_edited(events, known, matched, stored, asking)
    revived: tuple[int, ...] = ()
    abandoned: tuple[int, ...] = ()
    edits = Edits()
    if not any(matched) and stored.rows:
        revived = return_to_branch(events, matched, asking.abandoned_rows(1))
    elif any(matched):
        edits = _edits(events, matched, stored, asking)
        parts = alignment.diverged_at is not None
        revived = revive(events, matched, stored.rows, asking.abandoned_rows, set(edits.notices), parts=parts)
        abandoned = _abandoned(matched, edits, stored, alignment, is_return=bool(revived))
    ambiguous = alignment.ambiguous and not all(_is_hosts(event.entry_id) for event in events)
    return _plan(events, matched, edits, stored, asking, revived, abandoned, ambiguous)


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

    window, rows = _marks(events, known, stored)
    return align(
        window,
        rows,
        anchor=stored.anchor,
        anchor_end=stored.anchor_end,
        is_begun_again=stored.is_begun_again,
        same_event=is_copy,
    )


def _marks(events: Sequence[Event], known: Sequence[TailRow | None], stored: Stored) -> tuple[list[bytes], list[bytes]]:
    """Both sides as alignment compares them: by fingerprint, and by row where an id has decided."""
    decided = {row.id for row in known if row is not None}
    return (
        [event.fingerprint if row is None else _mark(row) for event, row in zip(events, known, strict=True)],
        [_mark(row) if row.id in decided else row.fingerprint for row in stored.rows],
    )


def _mark(row: TailRow) -> bytes:
    """What stands for a row in place of its fingerprint, which is longer."""
    return row.id.to_bytes(8)


def _matched(
    events: Sequence[Event], known: Sequence[TailRow | None], stored: Stored, alignment: Alignment
) -> list[TailRow | None]:
    """The row of each event; an id decides, whatever the content says.

    A row whose own entry id is gone for good is this event only when the window covers its place: the host has
    rewritten its history under new ids. Otherwise a new id is a new event, a genuine repeat.
    """
    covered, newest = _is_rewritten_window(stored, alignment), 0
    matched: list[TailRow | None] = []
    for event, row, place in zip(events, known, alignment.matched, strict=True):
        if row is not None:
            covered, newest = True, max(newest, row.seq)
        elif place is not None:
            row = stored.rows[place]
            has_other_id = _is_hosts(event.entry_id) and _is_hosts(row.entry_id)
            if has_other_id and (row.entry_id in stored.in_use or not covered or row.seq < newest):
                row = None
        matched.append(row)
    return matched


def _is_hosts(entry_id: str | None) -> bool:
    """Whether a host gave an id; one that was made up for a file says nothing about a rewritten file."""
    return entry_id is not None and not entry_id.startswith(MADE_UP)


def _is_rewritten_window(stored: Stored, alignment: Alignment) -> bool:
    """Whether the whole last window is there again, from its first message on, and not just one text repeated."""
    if stored.anchor is None or stored.anchor_end is None:
        return False
    places = range(stored.anchor, stored.anchor_end)
    texts = {stored.rows[place].fingerprint for place in places}
    return len(texts) > 1 and set(places) <= set(alignment.matched)


def _unmatch_edited(
    events: Sequence[Event],
    known: Sequence[TailRow | None],
    matched: list[TailRow | None],
    stored: Stored,
    asking: Asking,
) -> None:
    """A message that resembles its row but says something else is an edit, and new; many at once are copies."""
    if asking.is_edited is None:
        return
    place = {row.id: n for n, row in enumerate(stored.rows)}
    changed = [
        (n, place[row.id])
        for n, (event, row) in enumerate(zip(events, matched, strict=True))
        if row is not None and known[n] is None and row.fingerprint != event.fingerprint
    ]
    edited = [n for n, at in changed if asking.is_edited(n, at)]
    if len(edited) <= _MAX_EDITED:
        for n in edited:
            matched[n] = None


def _edits(events: Sequence[Event], matched: Sequence[TailRow | None], stored: Stored, asking: Asking) -> Edits:
    """What the messages are that are no visible rows, before others that are."""
    place = {row.id: n for n, row in enumerate(stored.rows)}
    oldest = 0 if stored.is_whole else min((row.seq for row in stored.rows), default=0)
    places = [None if row is None else place.get(row.id) for row in matched]
    end = max((n for n, at in enumerate(places) if at is not None), default=0)
    put = {n for n in range(end) if places[n] is None and ((row := matched[n]) is None or row.seq >= oldest)}
    if not put or asking.notices is None:
        return Edits()
    notices = set(asking.notices())
    again = {n for n in put if matched[n] is None and events[n].fingerprint in notices}
    starts = [0] if stored.is_whole else []
    starts += [] if stored.anchor is None else [stored.anchor]
    found = find_edits(
        [Seen(events[n].message.role, at, n in put - again) for n, at in enumerate(places)],
        [row.role for row in stored.rows],
        Last(tuple(starts), stored.anchor_end, len(notices) - len(again)),
    )
    return Edits(found.replaced, tuple(sorted(again | {n for n in found.notices if matched[n] is None})))


def _abandoned(
    matched: Sequence[TailRow | None], edits: Edits, stored: Stored, alignment: Alignment, *, is_return: bool
) -> tuple[int, ...]:
    """Rows that were edited, and those behind the point where the window parts from them.

    A window that ends early shows old things again, unless it shows an edit or another branch.
    """
    there = {row.id for row in matched if row is not None}
    behind, end = alignment.diverged_at, len(stored.rows)
    if behind is None and stored.anchor_end is not None and (edits.replaced or is_return):
        behind = 1 + max((n for n, row in enumerate(stored.rows) if row.id in there), default=end)
        end = stored.anchor_end
    places = {*edits.replaced, *(() if behind is None else range(behind, end))}
    return tuple(row.id for n, row in enumerate(stored.rows) if n in places and row.id not in there)


def _plan(
    events: Sequence[Event],
    matched: Sequence[TailRow | None],
    edits: Edits,
    stored: Stored,
    asking: Asking,
    revived: tuple[int, ...],
    abandoned: tuple[int, ...],
    ambiguous: bool,
) -> IngestPlan:
    notices = set(edits.notices)
    shown = [(n, event, row) for n, (event, row) in enumerate(zip(events, matched, strict=True)) if n not in notices]
    new = [n for n, _, row in shown if row is None]
    is_disjoint = bool(new and stored.rows and len(new) == len(events))
    return IngestPlan(
        tuple(events[n] for n in new),
        stamps=_stamps(events, matched),
        claims=_claims(events, matched),
        abandoned=abandoned,
        revived=revived,
        replayed=len(events) - len(new),
        ambiguous=int(ambiguous),
        cause="disjoint" if is_disjoint else "branch" if abandoned or revived else None,
        places=tuple(None if row is None else row.id for _, _, row in shown),
        insertions=_insertions(new, events, matched),
        notices=tuple(events[n] for n in edits.notices),
        superseded=_superseded(events, matched, edits, stored, asking.same_event),
    )


def _insertions(new: Sequence[int], events: Sequence[Event], matched: Sequence[TailRow | None]) -> tuple[Inserted, ...]:
    """New messages stand before what the window shows next; those behind all others stand at the end anyway."""
    end = max((n for n, row in enumerate(matched) if row is not None), default=0)
    found: dict[tuple[int, ...], tuple[int, ...]] = {}
    for n in new:
        if n < end:
            behind = tuple(row.id for row in matched[n:] if row is not None)
            found[behind] = (*found.get(behind, ()), events[n].index)
    return tuple(Inserted(indexes, behind) for behind, indexes in found.items())


def _superseded(
    events: Sequence[Event],
    matched: Sequence[TailRow | None],
    edits: Edits,
    stored: Stored,
    same_event: SameEvent | None,
) -> tuple[int, ...]:
    """Rows that the last window began with, gone now, of which the notices at this one's head are new versions."""
    if stored.anchor is None or same_event is None:
        return ()
    there = {row.id for row in matched if row is not None}
    found: list[int] = []
    for n, row in zip(edits.notices, stored.rows[stored.anchor :], strict=False):
        is_version = n == len(found) and events[n].message.role == row.role and row.id not in there
        if not is_version or not same_event(n, stored.anchor + n, alone=False):
            break
        found.append(row.id)
    return tuple(found)


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
