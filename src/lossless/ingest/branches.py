"""A host that returns to a branch which it had left: its messages come back, they are not stored again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless.ingest.align import align

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from lossless.ingest.events import Event
    from lossless.store.messages import TailRow


def return_to_branch(
    events: Sequence[Event], matched: list[TailRow | None], hidden: Sequence[TailRow]
) -> tuple[int, ...]:
    """Match a window that has nothing in common with what is visible with the rows that left on branches."""
    alignment = align([event.fingerprint for event in events], [row.fingerprint for row in hidden])
    for n, place in enumerate(alignment.matched):
        if place is not None and _is_back(events[n], hidden[place]):
            matched[n] = hidden[place]
    return tuple(row.id for row in matched if row is not None)


def revive(
    events: Sequence[Event],
    matched: list[TailRow | None],
    rows: Sequence[TailRow],
    abandoned_rows: Callable[[int], Sequence[TailRow]],
    notices: Collection[int],
    *,
    parts: bool,
) -> tuple[int, ...]:
    """Fill places of a window that goes on as an abandoned branch did; returns the rows that come back, in order.

    `rows` are the visible ones; `parts` says that the window goes on in another way than they do. `notices` are
    the window's indexes of messages that belong to no branch.
    """
    visible = {row.id for row in rows}
    end = max(n for n, row in enumerate(matched) if row is not None)
    starts = [row.seq for row in matched if row is not None and row.id not in visible]
    inner = [n for n in range(end) if matched[n] is None and n not in notices]
    if parts or inner:
        starts.append(1)
    if end + 1 < len(matched) and (last := matched[end]) is not None:
        starts.append(last.seq + 1)
    hidden = abandoned_rows(min(starts)) if starts else ()
    taken = {row.id for row in matched if row is not None}
    free = [row for row in hidden if row.id not in taken]
    _match_any(events, matched, inner, free)
    _match_rest(events, matched, end, free, parts=parts)
    back = {row.id for row in hidden}
    first = next((n for n, row in enumerate(matched) if row is not None and row.id in back), None)
    if first is None:
        return ()
    return tuple(row.id for row in matched[first:] if row is not None and row.id in visible | back)


def _match_any(
    events: Sequence[Event], matched: list[TailRow | None], places: Iterable[int], free: list[TailRow]
) -> None:
    """Nothing new comes before a known message: what is unknown there may be any abandoned row that is still free."""
    for n in places:
        if row := next((row for row in free if _is_back(events[n], row)), None):
            matched[n] = row
            free.remove(row)


def _match_rest(
    events: Sequence[Event], matched: list[TailRow | None], end: int, free: list[TailRow], *, parts: bool
) -> None:
    """What follows the last known message may be the messages of an abandoned branch, in their order.

    Where the window parts from the rows it may be any: what was edited stands behind its branch in the archive.
    """
    last = matched[end]
    rest = iter([row for row in free if last is not None and row.seq > last.seq])
    for n in range(end + 1, len(matched)):
        matched[n] = next((row for row in rest if _is_back(events[n], row)), None)
    if parts:
        taken = {row.id for row in matched if row is not None}
        unknown = [n for n in range(end + 1, len(matched)) if matched[n] is None]
        _match_any(events, matched, unknown, [row for row in free if row.id not in taken])


def _is_back(event: Event, row: TailRow) -> bool:
    """Whether an event is an abandoned row; a new entry id is a new event."""
    return row.fingerprint == event.fingerprint and (event.entry_id is None or row.entry_id is None)
