"""Storing what came in: read once, decide, write once, in one transaction."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lossless.errors import BadInput
from lossless.ingest import events as incoming
from lossless.ingest.events import Skip
from lossless.ingest.filters import copies, is_delivery_copy
from lossless.ingest.payloads import store
from lossless.ingest.plan import IngestPlan, plan_append
from lossless.ingest.preamble import write_preamble
from lossless.ingest.window import Window, chains, ends_as_it_begins, ids_of, plan_aligned, plan_grown, read_window
from lossless.store.context import Change
from lossless.store.ingest_state import WITH_IDS, WITHOUT_IDS, Counts, WindowMark
from lossless.store.messages import Appended, NewMessage

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, tzinfo

    from lossless.ingest.events import Event
    from lossless.ingest.payloads import Payloads
    from lossless.model.conversations import Conversation, Session
    from lossless.model.messages import Incoming, JsonObject, Message
    from lossless.store.archive import Archive
    from lossless.store.messages import TailRow

#: How many of the newest rows a producer may adopt from the other one.
_ADOPTION_ROWS = 256
#: A window that has nothing in common with the archive is stored up to this many messages, or a fifth of what is there.
_FLOOD_FLOOR, _FLOOD_SHARE = 50, 5


@dataclass(frozen=True, slots=True)
class AppendReport:
    """What one call did. `stored` new rows; everything else was there already, or is named with its reason."""

    conversation_id: int | None
    stored: int = 0
    #: Messages that were in the archive already.
    replayed: int = 0
    #: Messages that are not kept, each with its reason.
    skipped: tuple[Skip, ...] = ()
    #: Rows that took over an entry id, from none or from one that is gone.
    stamped: int = 0
    #: Decisions that content alone could not settle; they count as replays.
    ambiguous: int = 0
    #: Messages that left the context because the host went on differently.
    abandoned: int = 0
    #: `branch`, `disjoint`, or None.
    cause: str | None = None
    #: Why nothing was stored although there was something to store.
    blocked: str | None = None
    message_ids: tuple[int, ...] = field(default=(), repr=False)


def append(
    archive: Archive,
    session: Session,
    items: Sequence[Message | Incoming | JsonObject],
    *,
    key: str | None,
    now: datetime,
    payloads: Payloads | None = None,
) -> AppendReport:
    """Store messages that the host says are new; the same key, entry id or event key twice is a no-op."""
    _check_names(session, key)
    events, skips = incoming.read(items)
    with archive.writing():
        conversation = archive.conversations.open(session, now)
        if key is not None and archive.ingest.has_key(conversation.id, key):
            return AppendReport(conversation.id, replayed=len(events), skipped=tuple(skips))
        events = _without_copies(archive, conversation, events, skips, follows=True)
        plan = _plan_append(archive, conversation, events)
        appended = _write(archive, conversation, plan, payloads, now)
        batch = Window((), tuple(events), tuple(skips), len(items))
        _count(archive, conversation, plan, batch, appended, now, fits=bool(appended.ids))
        _remember_key(archive, conversation, key, events, now)
    return _report(conversation, plan, skips, appended.ids, plan.replayed)


def _without_copies(
    archive: Archive, conversation: Conversation, events: Sequence[Event], skips: list[Skip], *, follows: bool
) -> list[Event]:
    """The events but for notes of a delivery, which are added to `skips`; `follows` when they follow the newest row."""
    kept: list[Event] = []
    for event in events:
        if is_delivery_copy(event.message):
            before = kept[-1].message if kept else _newest(archive, conversation) if follows else None
            if copies(event.message, before):
                skips.append(Skip(event.index, "the note of a delivery"))
                continue
        kept.append(event)
    return kept


def _newest(archive: Archive, conversation: Conversation) -> Message | None:
    newest = archive.messages.newest_id(conversation.id)
    return None if newest is None else archive.messages.get(newest).message


def _plan_append(archive: Archive, conversation: Conversation, events: Sequence[Event]) -> IngestPlan:
    entry_ids, event_keys = ids_of(events)
    others = WITHOUT_IDS if entry_ids else WITH_IDS
    adoptable: list[TailRow] = []
    if archive.ingest.state(conversation.id).producers & others:
        adoptable = archive.messages.tail(conversation.id, _ADOPTION_ROWS)
        if not entry_ids:  # only rows behind the last one that this producer has brought
            last = max((n for n, row in enumerate(adoptable) if row.claimed), default=-1)
            adoptable = adoptable[last + 1 :]
    return plan_append(
        events,
        archive.messages.known_entries(conversation.id, entry_ids),
        archive.messages.known_events(conversation.id, event_keys),
        adoptable,
    )


def sync(
    archive: Archive,
    session: Session,
    items: Sequence[Message | Incoming | JsonObject],
    *,
    key: str | None,
    now: datetime,
    timezone: tzinfo | None = None,
    payloads: Payloads | None = None,
) -> AppendReport:
    """Store what the host's current window adds to the archive; replaying any window changes nothing."""
    _check_names(session, key)
    with archive.writing():
        conversation = archive.conversations.open(session, now)
        if key is not None and archive.ingest.has_key(conversation.id, key):
            return AppendReport(conversation.id, replayed=len(items))
        mark = archive.ingest.window(conversation.id)
        middle, end = chains(items, mark.length if mark else 0)
        newest = archive.messages.newest_id(conversation.id)
        grown = mark is not None and mark.last_id == newest and middle == mark.chain
        window = (
            read_window(archive, conversation.id, items[mark.length :], timezone, mark.length)
            if grown and mark
            else None
        )
        if window is not None:
            window = _window_without_copies(archive, conversation, window, follows=True)
            plan = plan_grown(archive, conversation.id, window.events)
            if not window.size and ends_as_it_begins(items):  # the same again, or one that has moved on
                plan = replace(plan, ambiguous=1)
        else:
            window = read_window(archive, conversation.id, items, timezone)
            window = _window_without_copies(archive, conversation, window, follows=False)
            plan = plan_aligned(archive, conversation.id, window.events, mark)
        if (cap := _flood_cap(archive, conversation, plan)) is not None:
            return _blocked(archive, conversation, plan, window, cap, now)
        appended = write_preamble(archive, conversation, window.preamble, now, is_first=newest is None)
        appended += _write(archive, conversation, plan, payloads, now)
        _remember_window(
            archive, conversation, plan, appended.ids, mark, WindowMark(None, None, len(items), end), now, grown=grown
        )
        _count(archive, conversation, plan, window, appended, now, fits=True)
        _remember_key(archive, conversation, key, window.events, now)
    return _report(conversation, plan, window.skips, appended.ids, len(items) - len(appended.ids) - len(window.skips))


def _window_without_copies(archive: Archive, conversation: Conversation, window: Window, *, follows: bool) -> Window:
    skips = list(window.skips)
    events = _without_copies(archive, conversation, window.events, skips, follows=follows)
    return replace(window, events=tuple(events), skips=tuple(skips)) if len(skips) > len(window.skips) else window


def _check_names(session: Session, key: str | None) -> None:
    for what, name in (("session key", session.key), ("session id", session.id), ("key", key)):
        if name is not None and not incoming.is_encodable(name):
            raise BadInput(f"the {what} holds half a surrogate pair, which is no text")


def _flood_cap(archive: Archive, conversation: Conversation, plan: IngestPlan) -> int | None:
    """The cap that a disjoint window exceeds, or None."""
    if plan.cause != "disjoint":
        return None
    tail = archive.messages.tail(conversation.id, 1)
    cap = max(_FLOOD_FLOOR, (tail[-1].seq if tail else 0) // _FLOOD_SHARE)
    return cap if len(plan.new) > cap else None


def _blocked(
    archive: Archive, conversation: Conversation, plan: IngestPlan, window: Window, cap: int, now: datetime
) -> AppendReport:
    reason = (
        f"a window of {len(plan.new)} messages has nothing in common with this conversation; "
        f"more than {cap} at once are not taken over. Use a new session, or append them."
    )
    archive.ingest.block(conversation.id, reason, now)
    return AppendReport(conversation.id, skipped=window.skips, cause="disjoint", blocked=reason)


def _write(
    archive: Archive, conversation: Conversation, plan: IngestPlan, payloads: Payloads | None, now: datetime
) -> Appended:
    """Carry out a plan inside the caller's transaction; returns the new rows."""
    if plan.stamps:
        archive.messages.stamp(plan.stamps)
    if plan.claims:
        archive.messages.claim(plan.claims)
    if plan.abandoned or plan.revived:
        _branch(archive, conversation, plan, now)
    return store(archive, conversation, [_new(event, now) for event in plan.new], payloads, now)


def _new(event: Event, now: datetime) -> NewMessage:
    at = event.created_at or now
    return NewMessage(event.message, event.identity, event.fingerprint, at, event.entry_id, event.message.event_key)


def _branch(archive: Archive, conversation: Conversation, plan: IngestPlan, now: datetime) -> None:
    before = archive.context.tokens(conversation.id)
    archive.context.hide(conversation.id, plan.abandoned, "branch", now)
    archive.context.reveal(conversation.id, plan.revived, now)
    after = archive.context.tokens(conversation.id)
    change = Change("branch", "sync", plan.cause, plan.abandoned, plan.revived, None, before, after)
    archive.context.log(conversation.id, change, now)


def _remember_window(
    archive: Archive,
    conversation: Conversation,
    plan: IngestPlan,
    ids: Sequence[int],
    before: WindowMark | None,
    mark: WindowMark,
    now: datetime,
    *,
    grown: bool,
) -> None:
    """Note what this window covered; an old window shown again does not replace a newer one."""
    if grown and before is not None:
        first, last = before.first_id, ids[-1] if ids else before.last_id
    else:
        fresh = iter(ids[len(ids) - len(plan.new) :])
        places = [next(fresh) if place is None else place for place in plan.places]
        if not places:
            return
        first, last = places[0] if places == sorted(places) else None, max(places)
        older = before is not None and before.last_id is not None and last < before.last_id
        if older and not plan.revived and not plan.new:
            return
    archive.ingest.set_window(conversation.id, WindowMark(first, last, mark.length, mark.chain), now)


def _count(
    archive: Archive,
    conversation: Conversation,
    plan: IngestPlan,
    window: Window,
    appended: Appended,
    now: datetime,
    *,
    fits: bool,
) -> None:
    """Add to the counters; input that fits ends the time in which a conversation refused it."""
    events = (*window.preamble, *window.events)
    with_ids = any(event.entry_id is not None for event in events)
    without = any(event.entry_id is None for event in events)
    counts = Counts(
        seen=window.size,
        stored=len(appended.ids),
        replayed=window.size - len(window.skips) - len(appended.ids),
        skipped=len(window.skips),
        ambiguous=plan.ambiguous,
        fits=fits,
        producers=(WITH_IDS if with_ids else 0) | (WITHOUT_IDS if without else 0),
        tokens=appended.tokens,
        last_seq=appended.last_seq,
    )
    archive.ingest.count(conversation.id, counts, now)


def _remember_key(
    archive: Archive, conversation: Conversation, key: str | None, events: Sequence[Event], now: datetime
) -> None:
    if key is not None:
        payload = hashlib.sha256(b"".join(event.fingerprint for event in events)).hexdigest()
        archive.ingest.remember_key(conversation, key, ids_of(events)[0], len(events), payload, now)


def _report(
    conversation: Conversation, plan: IngestPlan, skips: Sequence[Skip], ids: Sequence[int], replayed: int
) -> AppendReport:
    return AppendReport(
        conversation.id,
        stored=len(ids),
        replayed=replayed,
        skipped=tuple(skips),
        stamped=len(plan.stamps),
        ambiguous=plan.ambiguous,
        abandoned=len(plan.abandoned),
        cause=plan.cause,
        message_ids=tuple(ids),
    )
