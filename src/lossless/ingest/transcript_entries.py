"""Stores entries of a transcript: those that follow what is stored, or a whole path compared with it.

Both work inside the caller's transaction, which also moves the checkpoint.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from lossless.errors import BadMessage
from lossless.ingest import events as incoming
from lossless.ingest.events import Skip, entry_ids_of, mask_items
from lossless.ingest.plan import IngestPlan, plan_append
from lossless.ingest.run import (
    ConversationWriter,
    context_prompts,
    copy_detector,
    drop_delivery_notes,
    plan_batch,
    split_by_role,
)
from lossless.ingest.window import IncomingWindow, in_context_order, plan_aligned, plan_rest
from lossless.model.identity import fingerprint
from lossless.model.records import WindowMark
from lossless.model.times import row_time
from lossless.store.state import WITHOUT_IDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from lossless.ingest.events import Event
    from lossless.ingest.run import AppendReport, PayloadPolicy
    from lossless.model.conversations import Conversation
    from lossless.model.messages import Incoming
    from lossless.model.records import TailRow
    from lossless.store.archive import Archive

#: What a message and its copy under another id have in common: the content, and the time inside it.
Twin: TypeAlias = tuple[bytes, object]
#: How many of the newest rows an entry may adopt.
_ADOPTION_ROWS = 256
#: The maximum length of a rewritten history that is recognised.
_MOST_ROWS = 20_000


def read_entries(archive: Archive, conversation_id: int, items: Sequence[Incoming]) -> IncomingWindow:
    """Decode entries without what must not be kept; one that cannot be decoded does not prevent storing the others."""
    events: list[Event] = []
    skips: list[Skip] = []
    unreadable: list[Skip] = []
    for place, item in enumerate(mask_items(archive, conversation_id, items)):
        try:
            found, skipped = incoming.read_events((item,), place)
        except BadMessage as error:
            unreadable.append(Skip(place, error.reason))
            continue
        events += found
        skips += skipped
    return IncomingWindow((), tuple(events), tuple(skips), len(items), unreadable=tuple(unreadable))


def append_entries(
    archive: Archive,
    conversation: Conversation,
    batch: IncomingWindow,
    *,
    after: str | None,
    now: datetime,
    payloads: PayloadPolicy | None,
) -> AppendReport:
    """Store entries that come after what is stored; known ids, copies and twins are skipped.

    The entry `after` precedes them: what others stored behind its row may be theirs.
    """
    skips = list(batch.skips)
    events = drop_delivery_notes(archive, conversation.id, batch.events, skips, follows=True)
    if len(skips) > len(batch.skips):
        batch = replace(batch, events=tuple(events), skips=tuple(skips))
    events, known = split_by_role(archive, conversation.id, events)
    events, twins = _without_twins(archive, conversation, events, known)
    plan = plan_batch(archive, conversation.id, events, known)
    if plan.new and after is not None:
        plan = _plan_behind(archive, conversation.id, events, plan, after)
    if twins:
        plan = replace(plan, stamps=tuple({**dict(twins), **dict(plan.stamps)}.items()))
    return write_entries(archive, conversation, plan, batch, now=now, payloads=payloads)


def _plan_behind(
    archive: Archive, conversation_id: int, events: Sequence[Event], plan: IngestPlan, after: str
) -> IngestPlan:
    """The plan, or where rows were stored behind an entry that are not just the first events: these aligned with them.

    So a turn that only the transcript has comes before later ones of another producer. All rows stay.
    """
    row = archive.messages.known_entries(conversation_id, [after]).get(after)
    if row is None or row.id == archive.messages.newest_id(conversation_id):
        return plan
    rows = archive.messages.tail(conversation_id, _ADOPTION_ROWS)
    rows = in_context_order(rows, archive.context.ordinals(conversation_id, len(rows)))
    start = next((n for n, one in enumerate(rows) if one.id == row.id), None)
    new = {event.index for event in plan.new}
    found = [event.index for event in events if event.index not in new]
    if start is None or (len(rows) - start - 1 <= len(found) and max(found, default=-1) < min(new)):
        return plan
    ids = tuple(one.id for one in rows[start:])
    aligned = plan_rest(archive, conversation_id, events, rows[start:], WindowMark(ids[0], ids[-1], len(ids), b"", ids))
    return replace(aligned, abandoned=(), hidden=(), revived=(), moved=())


def plan_path(
    archive: Archive,
    conversation: Conversation,
    batch: IncomingWindow,
    *,
    rewritten: bool,
    after: int = 0,
    in_use: frozenset[str] = frozenset(),
) -> tuple[IngestPlan, IncomingWindow]:
    """What a path from some entry to the newest adds, and which stored messages are no longer on it.

    Returned with the batch without delivery notes. `rewritten` means that none of its ids is known: then text alone may
    identify the stored history. It continues after the row `after`, if known. Ids `in_use` are those of abandoned
    branches.
    """
    skips = list(batch.skips)
    events = drop_delivery_notes(archive, conversation.id, batch.events, skips, follows=False)
    events, _ = split_by_role(archive, conversation.id, events)
    rows = archive.messages.tail(conversation.id, _MOST_ROWS) if rewritten else []
    ids = tuple(row.id for row in rows if row.id > after)
    mark = WindowMark(ids[0], ids[-1], len(ids), b"", ids) if ids else None  # everything, as the host's last window
    if after and mark is None:
        plan = plan_batch(archive, conversation.id, events)
    else:
        plan = plan_aligned(archive, conversation.id, events, mark, in_use=in_use)
        if mark is not None and _is_of_another_time(archive, events, plan):
            plan = plan_batch(archive, conversation.id, events)
    known = archive.messages.known_entries(conversation.id, entry_ids_of(plan.new))
    new, twins = _without_twins(archive, conversation, plan.new, known)
    if rewritten:
        new, more = _without_copies_of_the_second(archive, conversation, new, plan)
        twins += more
    stamps = {**dict(twins), **dict(plan.stamps)}
    names = archive.messages.entry_ids([id_ for id_, _ in plan.hidden]) if plan.hidden and in_use else {}
    plan = replace(
        plan,
        new=tuple(new),
        stamps=tuple(stamps.items()),
        hidden=tuple(row for row in plan.hidden if names.get(row[0]) not in in_use),  # those leave as a branch
        replayed=len(events) - len(new),
        is_running=False,
    )
    return _adopt_rows(archive, conversation, plan), replace(batch, events=tuple(events), skips=tuple(skips))


def _is_of_another_time(archive: Archive, events: Sequence[Event], plan: IngestPlan) -> bool:
    """Whether entries only repeat the text of rows: messages have their own times, and none of them agrees."""
    found = [(event, row) for event, row in zip(events, plan.places, strict=True) if row is not None]
    bodies = {stored.id: stored.message.body or {} for stored in archive.messages.many([row for _, row in found])}
    times = [(_inner_time(event), _time_in(bodies[row])) for event, row in found]
    timed = [here == there for here, there in times if here is not None and there is not None]
    return bool(timed) and not any(timed)


def _adopt_rows(archive: Archive, conversation: Conversation, plan: IngestPlan) -> IngestPlan:
    """An entry without a match adopts the first row with the same content and no id."""
    if not plan.new or not archive.ingest.producers(conversation.id) & WITHOUT_IDS:
        return plan
    taken = {*plan.places, *plan.abandoned, *(row for row, _ in plan.stamps)}
    rows = [row for row in archive.messages.tail(conversation.id, _ADOPTION_ROWS) if row.id not in taken]
    rows = [*context_prompts(archive, conversation.id), *rows]
    free = [row for row in rows if row.entry_id is None]
    rest = plan_append(plan.new, {}, adoptable=free, is_copy=copy_detector(archive))
    return replace(
        plan,
        new=rest.new,
        stamps=plan.stamps + rest.stamps,
        versions=plan.versions + rest.versions,
        likely=plan.likely + rest.likely,
        replayed=plan.replayed + rest.replayed,
    )


def write_entries(
    archive: Archive,
    conversation: Conversation,
    plan: IngestPlan,
    batch: IncomingWindow,
    *,
    now: datetime,
    payloads: PayloadPolicy | None,
) -> AppendReport:
    """Store what was planned for a batch, and count it; a later entry under the same id revises the first."""
    plan, again = _once_each(plan)
    writer = ConversationWriter(archive, conversation, now, payloads)
    appended, revised = writer.write(plan)
    writer.count(plan, batch, appended, fits=bool(appended.ids), revised=revised)
    if again:
        ids = {event.entry_id: id_ for event, id_ in zip(plan.new, appended.ids, strict=True)}
        others = IngestPlan(versions=tuple((ids[event.entry_id], event) for event in again))
        nothing, more = writer.write(others)
        writer.count(others, IncomingWindow((), (), (), 0), nothing, fits=False, revised=more)
        revised += more
    replayed = len(batch.events) - len(appended.ids)
    return writer.report(plan, batch.skips, appended.ids, replayed, revised)


def _once_each(plan: IngestPlan) -> tuple[IngestPlan, list[Event]]:
    """A plan that stores each entry id once, and the later events under an id that it stores."""
    first: dict[str, Event] = {}
    for event in plan.new:
        if event.entry_id is not None:
            first.setdefault(event.entry_id, event)
    again = [event for event in plan.new if event.entry_id is not None and first[event.entry_id] is not event]
    if not again:
        return plan, again
    new = [event for event in plan.new if event.entry_id is None or first[event.entry_id] is event]
    return replace(plan, new=tuple(new)), again


def _without_twins(
    archive: Archive, conversation: Conversation, events: Sequence[Event], known: Mapping[str, TailRow]
) -> tuple[list[Event], list[tuple[int, str]]]:
    """Skip entries that a host has written again under new ids: the same message, the same millisecond.

    Returns the others, and the stored rows of the skipped ones, each with its new id.
    """
    unknown = [event for event in events if event.entry_id is not None and event.entry_id not in known]
    names = {event.index: (event.fingerprint, _inner_time(event)) for event in unknown}
    stored = _twins(archive, conversation, [event for event in unknown if names[event.index][1] is not None])
    seen: set[Twin] = set()
    remaining: set[str | None] = set()
    rows: list[tuple[int, str]] = []
    for event in unknown:
        twin = names[event.index]
        if twin[1] is None or event.entry_id is None:
            continue
        if twin in stored:
            rows.append((stored[twin], event.entry_id))
        if twin in stored or twin in seen:
            remaining.add(event.entry_id)
        seen.add(twin)
    return [event for event in events if event.entry_id is None or event.entry_id not in remaining], rows


def _without_copies_of_the_second(
    archive: Archive, conversation: Conversation, events: Sequence[Event], plan: IngestPlan
) -> tuple[list[Event], list[tuple[int, str]]]:
    """Skip entries of a rewritten file with the content and second of a row with an id; each row matches once.

    Those with their own time are identified by that.
    """
    pairs = [(event.identity, at) for event in events if (at := event.created_at) and _inner_time(event) is None]
    taken = {*plan.places, *plan.abandoned}
    found = [id_ for id_ in archive.messages.twins(conversation.id, pairs) if id_ not in taken] if pairs else []
    free: defaultdict[Twin, deque[int]] = defaultdict(deque)
    for row in archive.messages.many(found):
        free[(fingerprint(row.message), row_time(row.created_at) if row.created_at else None)].append(row.id)
    new: list[Event] = []
    rows: list[tuple[int, str]] = []
    for event in events:
        name = (event.fingerprint, row_time(event.created_at) if event.created_at else None)
        if event.entry_id is not None and _inner_time(event) is None and free[name]:
            rows.append((free[name].popleft(), event.entry_id))
        else:
            new.append(event)
    return new, rows


def _twins(archive: Archive, conversation: Conversation, events: Sequence[Event]) -> dict[Twin, int]:
    """Stored messages with the identity and the second of one of these, by twin key."""
    pairs = [(event.identity, event.created_at) for event in events if event.created_at is not None]
    found = archive.messages.twins(conversation.id, pairs) if pairs else []
    rows = archive.messages.many(found)
    return {(fingerprint(row.message), _time_in(row.message.body or {})): row.id for row in rows}


def _inner_time(event: Event) -> object:
    """The original time inside the message; None when only its envelope has one."""
    return _time_in(event.message.body or {})


def _time_in(body: Mapping[str, object]) -> object:
    """The original time in a message; None for anything but a number or a text."""
    found = body.get("timestamp")
    return found if isinstance(found, int | float | str) else None
