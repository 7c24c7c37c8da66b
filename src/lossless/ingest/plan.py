"""Decides what a batch or a window adds. Pure: events and rows in, a plan out."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from lossless.ingest.likeness import is_short, may_be_said_again
from lossless.ingest.match import SURE, MatchedMessage, MatchResult, match
from lossless.model.messages import GENERATED_ID_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from lossless.ingest.events import Event
    from lossless.ingest.likeness import MessageComparer
    from lossless.model.records import TailRow


#: With more new messages than this, a few very short ones before them say little.
_MUCH = 4
#: Messages, by `Event.index`, to be placed before the first of these rows that is in the context, or at its end.
Insertion: TypeAlias = "tuple[tuple[int, ...], tuple[int, ...]]"


@dataclass(frozen=True, slots=True)
class IngestPlan:
    """What to write for one call."""

    #: Events to store, in order.
    new: tuple[Event, ...] = ()
    #: Rows that get a host's entry id: they had none, or one that is gone.
    stamps: tuple[tuple[int, str], ...] = ()
    #: Rows that a producer without entry ids sends for the first time.
    claims: tuple[int, ...] = ()
    #: Rows that are shown with different text. The text decides whether it replaces theirs or is stored as a reduction.
    versions: tuple[tuple[int, Event], ...] = ()
    #: Whether this is the text of a running session; text that is read later never replaces other text.
    is_running: bool = True
    #: Events that contain the text of rows split differently, each with the first of these rows.
    cuts: tuple[tuple[int, Event], ...] = ()
    #: Rows that leave the context because the host continued differently.
    abandoned: tuple[int, ...] = ()
    #: Rows that leave it for another cause.
    hidden: tuple[tuple[int, str], ...] = ()
    #: Rows that had left and are shown again.
    revived: tuple[int, ...] = ()
    #: Rows that move to another position.
    moved: tuple[int, ...] = ()
    replayed: int = 0
    ambiguous: int = 0
    likely: int = 0
    cause: str | None = None
    #: The stored row of each event, None for a new one.
    places: tuple[int | None, ...] = ()
    #: Messages that are not just appended to the context.
    insertions: tuple[Insertion, ...] = ()
    #: The rows of events that have one, by `Event.index`; only where there are insertions.
    rows_by_event: Mapping[int, int] = field(default_factory=dict)


#: Whether an event differs from its row; thinking is not in a fingerprint.
HasOtherWords: TypeAlias = "Callable[[Event, TailRow], bool]"


#: Whether an event is a row in another wording; the last argument asks whether that is certain by itself.
IsCopy: TypeAlias = "Callable[[Event, TailRow, bool], bool]"


def plan_append(
    events: Sequence[Event],
    by_entry: Mapping[str, TailRow],
    by_event_key: Mapping[str, TailRow] = MappingProxyType({}),
    called_again: Collection[str] = (),
    adoptable: Sequence[TailRow] = (),
    is_copy: IsCopy | None = None,
) -> IngestPlan:
    """Everything is new, except known entry ids and copies by the other producer.

    Different text under a stored entry id is a version. An event key identifies a row only with the same words, and
    unless the call was repeated (`called_again`). `adoptable` are the newest rows of a conversation with two kinds of
    producers: a row without an entry id may be adopted by an event with one, and vice versa, each once and in order.
    `is_copy` recognises one that a host has framed, redacted or shortened on one of the two paths.
    """
    new: list[Event] = []
    stamps: dict[int, str] = {}
    claims: list[int] = []
    versions: list[tuple[int, Event]] = []
    called, cursor, likely = set(called_again), 0, 0
    for n, event in enumerate(events):
        row = None if event.entry_id is None else by_entry.get(event.entry_id)
        if row is not None and row.role == event.message.role:
            if row.fingerprint != event.fingerprint:
                versions.append((row.id, event))
            continue
        key = event.message.event_key
        row = None if key is None or key in called else by_event_key.get(key)
        if row is not None and not (row.fingerprint == event.fingerprint and _is_free(row, event)):
            row = None
        if row is None and adoptable:
            at = _adopt(events[n:], adoptable, cursor, is_copy)
            if at is not None:
                row, cursor = adoptable[at], at + 1
                if row.fingerprint != event.fingerprint:
                    versions.append((row.id, event))
                    likely += 1
        if row is None:
            if event.message.parts:
                called.update(part.id for part in event.message.tool_calls if part.id is not None)
            new.append(event)
        elif event.entry_id is None:
            claims.append(row.id)
        elif row.entry_id is None:
            stamps.setdefault(row.id, event.entry_id)
    replayed = len(events) - len(new)
    return IngestPlan(
        tuple(new), tuple(stamps.items()), tuple(claims), tuple(versions), replayed=replayed, likely=likely
    )


def with_own_id(event: Event) -> Event:
    """An event whose id names another message, with an id derived from its words."""
    return replace(event, entry_id=f"{event.entry_id}~{event.fingerprint.hex()[:16]}")


def with_own_ids(events: Sequence[Event]) -> list[Event]:
    """Events with unique ids: a repeated id names the first message only."""
    seen: set[str] = set()
    found: list[Event] = []
    for event in events:
        if event.entry_id is not None and event.entry_id in seen:
            event = with_own_id(event)
        if event.entry_id is not None and event.entry_id in seen:
            event = replace(event, entry_id=None)
        elif event.entry_id is not None:
            seen.add(event.entry_id)
        found.append(event)
    return found


def _adopt(events: Sequence[Event], rows: Sequence[TailRow], start: int, is_copy: IsCopy | None) -> int | None:
    """The next row from `start` on that the other producer sent and that equals the first event.

    Otherwise a row of the other producer that the event is another wording of: the next one, if that is certain by
    itself or the next event is the row after it; or any, where nothing was adopted yet and what follows continues with
    the rows behind it to the newest one.
    """
    event = events[0]
    for index in range(start, len(rows)):
        if _is_free(rows[index], event) and rows[index].fingerprint == event.fingerprint:
            return index
    if is_copy is None:
        return None
    free = [index for index in range(start, len(rows)) if _is_free(rows[index], event)]
    if free and rows[free[0]].role == event.message.role:
        is_followed = len(events) > 1 and len(free) > 1 and events[1].fingerprint == rows[free[1]].fingerprint
        if is_copy(event, rows[free[0]], not is_followed):
            return free[0]
    for index in free[:0:-1] if start == 0 else ():
        behind = [row.fingerprint for row in rows[index + 1 :]]
        following = events[1 : len(behind) + 1]
        if rows[index].role != event.message.role or [one.fingerprint for one in following] != behind:
            continue
        if is_copy(event, rows[index], all(is_short(one.message) for one in following)):
            return index
    return None


def _is_free(row: TailRow, event: Event) -> bool:
    return row.entry_id is None if event.entry_id is not None else not row.claimed


@dataclass(frozen=True, slots=True)
class StoredRows:
    """The stored rows of a conversation, as far as a window needs them."""

    #: The visible rows in the order of the context.
    rows: tuple[TailRow, ...]
    #: The ids of the rows in the last window, None when unknown.
    last: frozenset[int] | None = None
    #: Whether the window begins where these rows begin, and the seq of the row before them.
    follows: bool = False
    after_seq: int = 0
    #: Rows of the window's entry ids, at any position.
    by_entry: Mapping[str, TailRow] | None = None
    #: The fingerprints of messages whose rows have references in place of payloads.
    same: Mapping[int, bytes] = field(default_factory=dict)

    def known(self, event: Event) -> TailRow | None:
        """The row that an entry id names; another role is another row."""
        row = (self.by_entry or {}).get(event.entry_id) if event.entry_id is not None else None
        return None if row is None or row.role != event.message.role else row


def plan_window(
    events: Sequence[Event],
    stored: StoredRows,
    pair: MessageComparer,
    hidden: Callable[[], Sequence[TailRow]],
    has_other_words: HasOtherWords,
) -> IngestPlan:
    """What of a window is new, which rows have different text now, and which are no longer in it.

    `hidden` are the rows that left the context earlier, so that a host can return to them.
    """
    known = [stored.known(event) for event in events]
    found = _match_rows(events, known, stored, pair, hidden) if stored.rows else MatchResult((None,) * len(events))
    rows: list[TailRow | None] = [None if n is None else stored.rows[n] for n in found.rows]
    for n, row in enumerate(known):
        rows[n] = rows[n] or row
    revived, ambiguous = _revive(events, rows, stored, hidden)
    return _make_window_plan(events, rows, stored, found, revived, ambiguous, has_other_words)


def _match_rows(
    events: Sequence[Event],
    known: Sequence[TailRow | None],
    stored: StoredRows,
    pair: MessageComparer,
    hidden: Callable[[], Sequence[TailRow]],
) -> MatchResult:
    place = {row.id: n for n, row in enumerate(stored.rows)}
    hidden_prints = cache(lambda: {row.fingerprint for row in hidden()})
    return match(
        [
            MatchedMessage(
                event.fingerprint, event.message.role, place.get(row.id) if row else None, is_short(event.message)
            )
            for event, row in zip(events, known, strict=True)
        ],
        [MatchedMessage(stored.same.get(row.id, row.fingerprint), row.role) for row in stored.rows],
        pair,
        last=None if stored.last is None else [n for n, row in enumerate(stored.rows) if row.id in stored.last],
        follows=stored.follows,
        is_abandoned=lambda n: events[n].fingerprint in hidden_prints(),
    )


def _revive(
    events: Sequence[Event], rows: list[TailRow | None], stored: StoredRows, hidden: Callable[[], Sequence[TailRow]]
) -> tuple[frozenset[int], int]:
    """Fill the positions of messages that had left the context; returns their rows' ids, and what content leaves open.

    One between others is any row with this text; one after the last is one that came after it. Very short texts after
    something new, with nothing known after them, are new as well.
    """
    new = [n for n, row in enumerate(rows) if row is None]
    visible = {row.id for row in stored.rows}
    outside = {row.id for row in rows if row is not None and row.id not in visible}
    if not (new or outside) or not (there := hidden()):
        return frozenset(), 0
    gone = {row.id for row in there}
    free: defaultdict[bytes, list[TailRow]] = defaultdict(list)
    taken = {row.id for row in rows if row is not None}
    for one in there:
        if one.id not in taken:
            free[one.fingerprint].append(one)
    back: list[int] = []
    end = max((n for n, row in enumerate(rows) if row is not None), default=-1)
    for n in sorted(new, key=lambda n: is_short(events[n].message)):
        if n > max(end, 0) and rows[n - 1] is None and is_short(events[n].message):
            continue
        some = [  # a new entry id is a new event
            row
            for row in free[events[n].fingerprint]
            if events[n].message.role == row.role and (events[n].entry_id is None or row.entry_id is None)
        ]
        if not some:
            continue
        earlier = ((rows[k], events[k].message) for k in range(n - 1, -1, -1))
        before = next((row.seq for row, one in earlier if row is not None and not is_short(one)), stored.after_seq)
        after = [row for row in some if row.seq > before]
        row = after[0] if after else some[0] if some and n < end else None
        if row is not None:
            rows[n] = row
            free[row.fingerprint].remove(row)
            back.append(n)
            end = max(end, n)
    is_open = back == [end] or all(is_short(events[n].message) for n in back)
    ambiguous = sum(not _is_hosts(events[n].entry_id) for n in back) if is_open else 0
    return frozenset(outside & gone) | {row.id for n in back if (row := rows[n]) is not None}, ambiguous


def _make_window_plan(
    events: Sequence[Event],
    rows: Sequence[TailRow | None],
    stored: StoredRows,
    found: MatchResult,
    revived: frozenset[int],
    ambiguous: int,
    has_other_words: HasOtherWords,
) -> IngestPlan:
    new = [n for n, row in enumerate(rows) if row is None]
    ids = [None if row is None else row.id for row in rows]
    shown = {id_ for id_ in ids if id_ is not None}
    gone: dict[int, str] = {
        stored.rows[n].id: cause for n, cause in found.gone.items() if stored.rows[n].id not in shown
    }
    if revived and not any(cause == "branch" for cause in gone.values()):
        gone |= _abandoned_rows(rows, stored, shown)
    abandoned = tuple(id_ for id_, cause in gone.items() if cause == "branch")
    moved = tuple(id_ for n in sorted(found.moved) if (id_ := ids[n]) is not None and id_ not in revived)
    is_open = not all(_is_hosts(event.entry_id) for event in events)
    known = [event for event, row in zip(events, rows, strict=True) if row is not None]
    begun = _count_open_beginning(known, len(new)) if stored.follows and not stored.after_seq else 0
    if not stored.follows and known and ids[: len(known)] == [row.id for row in stored.rows[-len(known) :]]:
        begun = _count_open_overlap(known)
    return IngestPlan(
        tuple(_storable(events[n], stored) for n in new),
        stamps=_stamps(events, rows, stored.by_entry or {}),
        claims=tuple(
            row.id
            for event, row in zip(events, rows, strict=True)
            if row is not None and event.entry_id is None and not row.claimed
        ),
        versions=tuple(
            (row.id, event)
            for n, (event, row) in enumerate(zip(events, rows, strict=True))
            if row is not None and n not in found.cuts and has_other_words(event, row)
        ),
        cuts=tuple((row.id, events[n]) for n in sorted(found.cuts) if (row := rows[n]) is not None),
        abandoned=abandoned,
        hidden=tuple((id_, cause) for id_, cause in gone.items() if cause != "branch"),
        revived=tuple(id_ for id_ in ids if id_ in revived),
        moved=moved,
        replayed=len(events) - len(new),
        ambiguous=max(begun, (found.ambiguous if is_open else 0) + ambiguous),
        likely=found.likely,
        cause=_cause(events, rows, stored, bool(abandoned or revived)),
        places=tuple(ids),
        insertions=_insertions(events, ids, {*revived, *moved}),
        rows_by_event={event.index: id_ for event, id_ in zip(events, ids, strict=True) if id_ is not None},
    )


def _count_open_beginning(known: Sequence[Event], new: int) -> int:
    """How many messages may be repeats where these are all that is known of a window, at its beginning.

    A few very short ones before much that is new: the window may have moved on to others with the same words.
    """
    is_open = len(known) < SURE and new > _MUCH and all(is_short(one.message) and not one.entry_id for one in known)
    return len(known) if is_open else 0


def _count_open_overlap(known: Sequence[Event]) -> int:
    """The same, where the window begins with the last rows, and all that it shows of them is said again and again."""
    is_open = len(known) < SURE and all(may_be_said_again(one.message) and not one.entry_id for one in known)
    return len(known) if is_open else 0


def _storable(event: Event, stored: StoredRows) -> Event:
    """An event as stored: without an id that another message has."""
    return replace(event, entry_id=None) if event.entry_id in (stored.by_entry or {}) else event


def _abandoned_rows(rows: Sequence[TailRow | None], stored: StoredRows, shown: Collection[int]) -> dict[int, str]:
    """Rows that a host has left for others that had left before."""
    there = {row.id for row in rows if row is not None}
    start = 1 + max((n for n, row in enumerate(stored.rows) if row.id in there), default=-1)
    behind = [row.id for row in stored.rows[start:] if row.id not in shown]
    return {id_: "branch" for id_ in behind if stored.last is None or id_ in stored.last}


def _cause(events: Sequence[Event], rows: Sequence[TailRow | None], stored: StoredRows, is_branch: bool) -> str | None:
    """Why a window is not just a continuation: nothing is known, another branch, or a host's summary at the start."""
    if is_branch:
        return "branch"
    first = next((n for n, row in enumerate(rows) if row is not None), None)
    if stored.follows:
        return None
    if first is None:
        return "disjoint" if events and stored.rows else None
    row = rows[first]
    at = next((n for n, one in enumerate(stored.rows) if row is not None and one.id == row.id), 0)
    return "host-summary" if first == 1 and at > 1 and events[0].message.role != "system" else None


def _insertions(events: Sequence[Event], ids: Sequence[int | None], placed: Collection[int]) -> tuple[Insertion, ...]:
    """New and moved messages go before what the window shows next; those after all others at the end."""
    stable = [n for n, id_ in enumerate(ids) if id_ is not None and id_ not in placed]
    end = stable[-1] if stable else -1
    found: dict[tuple[int, ...], list[int]] = {}
    for n, id_ in enumerate(ids):
        if n < end and (id_ is None or id_ in placed):
            behind = tuple(id_ for id_ in ids[n:] if id_ is not None and id_ not in placed)
            found.setdefault(behind, []).append(events[n].index)
    last = [events[n].index for n in range(end + 1, len(ids))]
    is_mixed = any(ids[n] is not None for n in range(end + 1, len(ids)))
    ends = ((tuple(last), ()),) if is_mixed else ()
    return (*((tuple(indexes), behind) for behind, indexes in found.items()), *ends)


def _is_hosts(entry_id: str | None) -> bool:
    """Whether a host assigned an id; one generated for a file says nothing about a rewritten file."""
    return entry_id is not None and not entry_id.startswith(GENERATED_ID_PREFIX)


def _stamps(
    events: Sequence[Event], rows: Sequence[TailRow | None], by_entry: Mapping[str, TailRow]
) -> tuple[tuple[int, str], ...]:
    """Rows without an id are adopted; rows whose id is gone from the window take the new one, if it is free."""
    there = {event.entry_id for event in events}
    stamps: dict[int, str] = {}
    for event, row in zip(events, rows, strict=True):
        if row is None or event.entry_id is None or event.entry_id in by_entry:
            continue
        if row.entry_id is None or row.entry_id not in there:
            stamps.setdefault(row.id, event.entry_id)
    return tuple(stamps.items())
