"""Storing what came in: read once, decide, write once, in one transaction."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lossless import recognise
from lossless.errors import BadInput
from lossless.ingest import events as incoming
from lossless.ingest.events import Skip
from lossless.ingest.payloads import store
from lossless.ingest.plan import IngestPlan, plan_append
from lossless.ingest.preamble import write_preamble
from lossless.ingest.prints import begins_as, ends_as_it_begins, is_cut_short, known_part, prints_of
from lossless.ingest.quiet import hide_quiet_turns
from lossless.ingest.same import is_certain_copy, is_edited, is_rewritten
from lossless.ingest.shown import only_shown
from lossless.ingest.window import Seen, Window, ids_of, plan_aligned, plan_grown, read_window, remember, system_head
from lossless.store.context import Change
from lossless.store.ingest_state import WITH_IDS, WITHOUT_IDS, Counts, WindowMark
from lossless.store.messages import Appended, NewMessage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, tzinfo

    from lossless.ingest.events import Event
    from lossless.ingest.payloads import Payloads
    from lossless.ingest.plan import IsCopy
    from lossless.model.conversations import Conversation, Session
    from lossless.model.messages import Incoming, JsonObject, Message
    from lossless.store.archive import Archive
    from lossless.store.messages import TailRow

#: How many of the newest rows a producer may adopt from the other one.
_ADOPTION_ROWS, _FEW_ROWS = 256, 16
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
    #: The conversation itself, as it was opened.
    conversation: Conversation | None = field(default=None, repr=False, compare=False)


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
        events = without_copies(archive, conversation, events, skips, follows=True)
        plan = plan_of_batch(archive, conversation, events)
        appended = write(archive, conversation, plan, payloads, now)
        batch = Window((), tuple(events), tuple(skips), len(items))
        count(archive, conversation, plan, batch, appended, now, fits=bool(appended.ids))
        _remember_key(archive, conversation, key, events, now)
    return report_of(conversation, plan, skips, appended.ids, plan.replayed)


def without_copies(
    archive: Archive, conversation: Conversation, events: Sequence[Event], skips: list[Skip], *, follows: bool
) -> list[Event]:
    """The events but for notes of a delivery, which are added to `skips`; `follows` when they follow the newest row."""
    kept: list[Event] = []
    for event in events:
        if recognise.may_be_note(event.message):
            before = kept[-1].message if kept else _newest(archive, conversation) if follows else None
            if recognise.is_note_of(event.message, before):
                skips.append(Skip(event.index, "the note of a delivery"))
                continue
        kept.append(event)
    return kept


def _newest(archive: Archive, conversation: Conversation) -> Message | None:
    newest = archive.messages.newest_id(conversation.id)
    return None if newest is None else archive.messages.get(newest).message


def plan_of_batch(
    archive: Archive,
    conversation: Conversation,
    events: Sequence[Event],
    known: Mapping[str, TailRow] | None = None,
) -> IngestPlan:
    """What a batch adds; `known` are the rows of its entry ids, when they were looked up already."""
    entry_ids, event_keys = ids_of(events)
    others = WITHOUT_IDS if entry_ids else WITH_IDS
    adoptable: list[TailRow] = []
    if archive.ingest.producers(conversation.id) & others:
        adoptable = (
            archive.messages.tail(conversation.id, _ADOPTION_ROWS) if entry_ids else _unclaimed(archive, conversation)
        )
    return plan_append(
        events,
        archive.messages.known_entries(conversation.id, entry_ids) if known is None else known,
        archive.messages.known_events(conversation.id, event_keys),
        adoptable,
        copies_in(archive),
    )


def _unclaimed(archive: Archive, conversation: Conversation) -> list[TailRow]:
    """The rows behind the last one that a producer without entry ids has brought: mostly few."""
    for most in (_FEW_ROWS, _ADOPTION_ROWS):
        rows = archive.messages.tail(conversation.id, most)
        last = max((n for n, row in enumerate(rows) if row.claimed), default=-1)
        if last >= 0 or len(rows) < most:
            break
    return rows[last + 1 :]


def copies_in(archive: Archive) -> IsCopy:
    """Recognises rewritten copies of stored rows."""

    def is_copy(event: Event, row: TailRow, *, alone: bool) -> bool:
        stored = archive.messages.get(row.id).message
        if is_certain_copy(stored, event.message):
            return True
        return not alone and is_rewritten(stored, event.message) and not is_edited(stored, event.message)

    return is_copy


def sync(
    archive: Archive,
    session: Session,
    items: Sequence[Message | Incoming | JsonObject],
    *,
    key: str | None,
    now: datetime,
    timezone: tzinfo | None = None,
    payloads: Payloads | None = None,
    whole: bool = False,
) -> AppendReport:
    """Store what the host's current window adds to the archive; replaying any window changes nothing.

    One that is `whole` is all of the conversation: what it does not show any more leaves the context.
    """
    _check_names(session, key)
    with archive.writing():
        conversation = archive.conversations.open(session, now)
        if key is not None and archive.ingest.has_key(conversation.id, key):
            return AppendReport(conversation.id, replayed=len(items))
        mark = archive.ingest.window(conversation.id)
        newest = archive.messages.newest_said_id(conversation.id)
        prints = prints_of(items)
        is_cut = whole and mark is not None and is_cut_short(mark, prints, system_head(items))
        found = None if is_cut else _read_known(archive, conversation, items, prints, mark, newest, timezone)
        seen = found or _read_aligned(archive, conversation, items, prints, mark, timezone)
        window, plan = seen.window, seen.plan
        if (cap := _flood_cap(archive, conversation, plan)) is not None:
            return _blocked(archive, conversation, plan, window, cap, now)
        is_first = newest is None and archive.messages.newest_id(conversation.id) is None
        is_all = whole and found is None
        appended = write_preamble(archive, conversation, window.preamble, now, is_first=is_first, is_all=is_all)
        if is_all:
            plan = only_shown(archive, conversation, window, plan, now)
        appended += write(archive, conversation, plan, payloads, now)
        remember(archive, conversation.id, replace(seen, plan=plan), appended.ids, now)
        count(archive, conversation, plan, window, appended, now, fits=True)
        _remember_key(archive, conversation, key, window.events, now)
    return report_of(conversation, plan, window.skips, appended.ids, len(items) - len(appended.ids) - len(window.skips))


def _read_known(
    archive: Archive,
    conversation: Conversation,
    items: Sequence[Message | Incoming | JsonObject],
    prints: bytes,
    mark: WindowMark | None,
    newest: int | None,
    timezone: tzinfo | None,
) -> Seen | None:
    """A window that goes on from the last one, which it begins with or has moved on from: the rest of it is new.

    None when it does not, or when others have stored something since.
    """
    head = system_head(items)
    known = known_part(mark, prints, head) if mark is not None and mark.last_id == newest else None
    if mark is None or known is None:
        return None
    grown, start = known.length == mark.length, known.length
    rest = items[start:] if grown else [*items[:head], *items[start:]]
    window = read_window(archive, conversation.id, rest, timezone, start if grown else 0)
    window = _window_without_copies(archive, conversation, window, follows=True)
    plan = plan_grown(archive, conversation.id, window.events)
    is_same = grown and not window.size  # the same again, or one that has moved on
    if known.is_ambiguous or (is_same and ends_as_it_begins(items)):
        plan = replace(plan, ambiguous=1)
    first = mark.first_id if grown else _first_of(archive, conversation, items[head:], start - head)
    return Seen(window, plan, mark, WindowMark(first, None, len(items), prints), follows=True)


def _read_aligned(
    archive: Archive,
    conversation: Conversation,
    items: Sequence[Message | Incoming | JsonObject],
    prints: bytes,
    mark: WindowMark | None,
    timezone: tzinfo | None,
) -> Seen:
    """A window that is laid over the stored rows."""
    window = read_window(archive, conversation.id, items, timezone)
    window = _window_without_copies(archive, conversation, window, follows=False)
    if mark is not None:
        mark = replace(mark, is_begun_again=begins_as(mark, prints, system_head(items)))
    plan = plan_aligned(archive, conversation.id, window.events, mark, may_change=True)
    window = replace(window, preamble=(*window.preamble, *plan.notices))
    return Seen(window, plan, mark, WindowMark(None, None, len(items), prints), follows=False)


def _first_of(
    archive: Archive, conversation: Conversation, said: Sequence[Message | Incoming | JsonObject], known: int
) -> int | None:
    """The row of the first message of a window that has moved on, before it is stored, if it is where it should be."""
    rows = archive.messages.tail(conversation.id, max(1, known))
    events, _ = incoming.read(said[:1])
    is_there = len(rows) == known and bool(events) and rows[0].fingerprint == events[0].fingerprint
    return rows[0].id if is_there else None


def _window_without_copies(archive: Archive, conversation: Conversation, window: Window, *, follows: bool) -> Window:
    skips = list(window.skips)
    events = without_copies(archive, conversation, window.events, skips, follows=follows)
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


def write(
    archive: Archive, conversation: Conversation, plan: IngestPlan, payloads: Payloads | None, now: datetime
) -> Appended:
    """Carry out a plan inside the caller's transaction; returns the new rows."""
    if plan.stamps:
        archive.messages.stamp(plan.stamps)
    if plan.claims:
        archive.messages.claim(plan.claims)
    if plan.superseded:
        _supersede(archive, conversation, plan.superseded, now)
    if plan.abandoned or plan.revived or plan.insertions:
        return _branch(archive, conversation, plan, payloads, now)
    return _store(archive, conversation, plan, payloads, now)


def _store(
    archive: Archive, conversation: Conversation, plan: IngestPlan, payloads: Payloads | None, now: datetime
) -> Appended:
    appended = store(archive, conversation, [_new(event, now) for event in plan.new], payloads, now)
    hide_quiet_turns(archive, conversation, plan.new, appended.ids, now)
    return appended


def _new(event: Event, now: datetime) -> NewMessage:
    at = event.created_at or now
    message = event.message
    sender = recognise.sender_of(message)
    return NewMessage(message, event.identity, event.fingerprint, at, event.entry_id, message.event_key, sender)


def _supersede(archive: Archive, conversation: Conversation, rows: tuple[int, ...], now: datetime) -> None:
    before = archive.context.tokens(conversation.id)
    archive.context.hide(conversation.id, rows, "superseded", now)
    after = archive.context.tokens(conversation.id)
    archive.context.log(conversation.id, Change("hide", "sync", "superseded", rows, (), None, before, after), now)


def _branch(
    archive: Archive, conversation: Conversation, plan: IngestPlan, payloads: Payloads | None, now: datetime
) -> Appended:
    """Take out what the host abandoned or edited, put back what it returned to, and store what is new at its place."""
    before = archive.context.tokens(conversation.id)
    if plan.abandoned:
        archive.context.hide(conversation.id, plan.abandoned, "branch", now)
    if plan.revived:
        archive.context.reveal(conversation.id, plan.revived, now)
    after = archive.context.tokens(conversation.id)
    appended = _store(archive, conversation, plan, payloads, now)
    stored = {event.index: (id_, event) for event, id_ in zip(plan.new, appended.ids, strict=True)}
    inserted = list(plan.revived)
    for one in plan.insertions:
        found = [stored[index] for index in one.events if index in stored]
        archive.context.insert_before(conversation.id, [id_ for id_, _ in found], one.before, now)
        inserted += [id_ for id_, _ in found]
        after += sum(event.message.tokens for _, event in found)
    change = Change("branch", "sync", plan.cause, plan.abandoned, tuple(inserted), None, before, after)
    archive.context.log(conversation.id, change, now)
    return appended


def count(
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


def report_of(
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
        conversation=conversation,
    )
