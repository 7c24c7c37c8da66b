"""Store a batch or a window: read once, decide, write once, in one transaction.

A session that is shown in two tabs gets a conversation for each.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from lossless.errors import BadInput
from lossless.ingest import events as incoming
from lossless.ingest import host_filters, likeness
from lossless.ingest.events import Skip, mask_items
from lossless.ingest.host_filters import hide_quiet_turns
from lossless.ingest.plan import IngestPlan, KnownRows, plan_append, with_own_id, with_own_ids
from lossless.ingest.synthetic import is_referenced
from lossless.ingest.window import (
    IncomingWindow,
    common_prefix,
    count_system_head,
    entry_ids_of,
    event_keys_of,
    hide_unshown,
    is_cut_short,
    moved_overlap,
    plan_aligned,
    plan_grown,
    plan_rest,
    possible_repeats,
    read_window,
    window_prints,
)
from lossless.ingest.write import join_leaf, store_messages, write_system_prompts, write_versions
from lossless.model.messages import Incoming, MessageLike
from lossless.model.records import ContextChange, TailRow, WindowMark
from lossless.store.messages import Appended, NewMessage
from lossless.store.state import WITH_IDS, WITHOUT_IDS, IngestCounts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import datetime, tzinfo

    from lossless.ingest.events import Event
    from lossless.ingest.plan import IsCopy
    from lossless.ingest.write import PayloadPolicy
    from lossless.model.conversations import Conversation, Session
    from lossless.model.messages import Message
    from lossless.store.archive import Archive

#: Why a conversation is closed that another tab of its session stands before.
TAB = "tab"
#: So many tabs are looked at, those that were closed last.
_TABS = 16
#: So many messages of a branch are looked at.
_SOON = 256


def choose_tab(
    archive: Archive,
    session: Session,
    conversation: Conversation,
    seen: SeenWindow,
    read: Callable[[Conversation], SeenWindow],
    now: datetime,
) -> tuple[Conversation, SeenWindow]:
    """The conversation that a window belongs to which does not go on from the active one, and the window against it.

    It becomes the active one. `read` lays the window over another conversation.
    """
    if session.is_cron or not _goes_elsewhere(seen.plan):
        return conversation, seen
    best = conversation, seen
    for other in archive.conversations.closed_for(conversation, TAB, _TABS):
        there = read(other)
        if there.plan.cause != "disjoint" and _count_abandoned(there.plan) < _count_abandoned(best[1].plan):
            best = other, there
    if best[0] is conversation and _is_second_return(archive, conversation, seen.plan):
        archive.conversations.archive(conversation.id, TAB, now)
        beside = archive.conversations.open(session, now)
        return beside, read(beside)
    if best[0] is not conversation:
        archive.conversations.archive(conversation.id, TAB, now)
        archive.conversations.reopen(best[0].id, now)
        best = archive.conversations.get(best[0].id), best[1]
    return best


def _goes_elsewhere(plan: IngestPlan) -> bool:
    return bool(plan.abandoned) or plan.cause == "disjoint"


def _count_abandoned(plan: IngestPlan) -> int:
    """How much of what a conversation shows a window does not go on from."""
    return len(plan.abandoned) + len(plan.revived) if plan.cause != "disjoint" else 1 << 30


def _is_second_return(archive: Archive, conversation: Conversation, plan: IngestPlan) -> bool:
    """Whether a host returns to a branch, and leaves one for it that it had returned to before.

    Somebody has said something on both: an answer that is written again and again is no tab.
    """
    if not plan.revived or not plan.abandoned:
        return False
    if not archive.context.has_returned(conversation.id, left=plan.abandoned, back=plan.revived):
        return False
    return all(_has_user(archive, ids) for ids in (plan.revived, plan.abandoned))


def _has_user(archive: Archive, message_ids: Collection[int]) -> bool:
    """Whether a user speaks soon after the branches part."""
    return any(row.message.role == "user" for row in archive.messages.many(sorted(message_ids)[:_SOON]))


#: How many of the newest rows a producer may adopt from the other one.
_ADOPTION_ROWS, _FEW_ROWS = 256, 16
#: So much of a window may differ from the last one for the rest of it to be compared with that alone.
_MAX_REST = 256
#: Bytes for each message of a window.
_PRINT = 8
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
    #: Rows that have other words now; those they had are kept as versions.
    revised: int = 0
    #: Messages whose row was decided by likeness.
    likely: int = 0
    #: Repeats that may be missing, because content alone could not settle whether they are; they count as replays.
    ambiguous: int = 0
    #: Messages that left the context because the host went on differently.
    abandoned: int = 0
    #: `branch`, `disjoint`, `host-summary`, or None.
    cause: str | None = None
    #: Why what was shown is no part of the context: it is stored in a quarantined conversation, until somebody decides.
    blocked: str | None = None
    #: That conversation.
    quarantine_id: int | None = None
    message_ids: tuple[int, ...] = field(default=(), repr=False)
    #: Whether it changed what stood there before, so that summaries may be stale.
    changes_past: bool = field(default=False, repr=False)
    #: The conversation itself, as it was opened.
    conversation: Conversation | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class SeenWindow:
    """A window against the archive: what of it is new, and what is remembered of it."""

    window: IncomingWindow
    plan: IngestPlan
    before: WindowMark | None
    prints: bytes
    #: The rows of the messages before those of `window`, which were known without being read.
    rows: tuple[int, ...] = ()
    #: Whether all of the window was laid over the rows.
    is_laid_over: bool = False
    #: Whether the last window began with system prompts, and this one with what followed them.
    has_lost_prompts: bool = False


def append(
    archive: Archive,
    session: Session,
    items: Sequence[MessageLike],
    *,
    key: str | None,
    now: datetime,
    payloads: PayloadPolicy | None = None,
) -> AppendReport:
    """Store messages that the host says are new; the same key with the same words, or the same entry id, is a no-op."""
    _check_names(session, key)
    events, skips = incoming.read_events(items)
    with archive.writing():
        conversation = archive.conversations.open(session, now)
        if (kept := mask_items(archive, conversation.id, items)) is not items:
            events, skips = incoming.read_events(kept)
        events = with_own_ids(events)
        if key is not None and archive.ingest.has_key(conversation.id, key, _payload(events)):
            return AppendReport(conversation.id, replayed=len(events), skipped=tuple(skips))
        events = drop_delivery_notes(archive, conversation, events, skips, follows=True)
        events, known = split_by_role(archive, conversation, events)
        plan = plan_batch(archive, conversation, events, known)
        appended, revised = write_plan(archive, conversation, plan, payloads, now)
        batch = IncomingWindow((), tuple(events), tuple(skips), len(items))
        update_counters(archive, conversation, plan, batch, appended, now, fits=bool(appended.ids), revised=revised)
        _remember_key(archive, conversation, key, events, now)
    return append_report(conversation, plan, skips, appended.ids, plan.replayed, revised)


def drop_delivery_notes(
    archive: Archive, conversation: Conversation, events: Sequence[Event], skips: list[Skip], *, follows: bool
) -> list[Event]:
    """The events but for notes of a delivery, which are added to `skips`; `follows` when they follow the newest row."""
    kept: list[Event] = []
    for event in events:
        if host_filters.may_be_note(event.message):
            before = kept[-1].message if kept else _newest(archive, conversation) if follows else None
            if host_filters.is_note_of(event.message, before):
                skips.append(Skip(event.index, "the note of a delivery"))
                continue
        kept.append(event)
    return kept


def _newest(archive: Archive, conversation: Conversation) -> Message | None:
    newest = archive.messages.newest_id(conversation.id)
    return None if newest is None else archive.messages.get(newest).message


def split_by_role(
    archive: Archive, conversation: Conversation, events: Sequence[Event]
) -> tuple[list[Event], dict[str, TailRow]]:
    """Events with the rows of their ids; an id names one role, and a message of another role has one of its own."""
    known = dict(archive.messages.known_entries(conversation.id, entry_ids_of(events)))
    roles: dict[str, str] = {id_: row.role for id_, row in known.items()}
    found = [
        event
        if event.entry_id is None or roles.setdefault(event.entry_id, event.message.role) == event.message.role
        else with_own_id(event)
        for event in events
    ]
    renamed = [event for event in found if event.entry_id is not None and event.entry_id not in roles]
    if renamed:
        known |= archive.messages.known_entries(conversation.id, entry_ids_of(renamed))
    return found, known


def plan_batch(
    archive: Archive,
    conversation: Conversation,
    events: Sequence[Event],
    by_entry: Mapping[str, TailRow] | None = None,
) -> IngestPlan:
    """What a batch adds; `by_entry` are the rows of its entry ids, when they were looked up already."""
    entry_ids = entry_ids_of(events)
    others = WITHOUT_IDS if entry_ids else WITH_IDS
    adoptable: list[TailRow] = []
    if archive.ingest.producers(conversation.id) & others:
        adoptable = (
            archive.messages.tail(conversation.id, _ADOPTION_ROWS) if entry_ids else _unclaimed(archive, conversation)
        )
    if by_entry is None:
        by_entry = archive.messages.known_entries(conversation.id, entry_ids)
    by_event = archive.messages.known_events(conversation.id, event_keys_of(events))
    again = archive.messages.called_after(conversation.id, {key: row.id for key, row in by_event.items()})
    if any(event.message.role == "system" for event in events):
        adoptable = [*context_prompts(archive, conversation), *adoptable]
    return plan_append(events, KnownRows(by_entry, by_event, again), adoptable, copy_detector(archive))


def context_prompts(archive: Archive, conversation: Conversation) -> list[TailRow]:
    """The system prompts that the context begins with, for a producer that brings them, too."""
    there, _ = archive.context.preamble(conversation.id)
    known = archive.messages.entry_ids([prompt.message_id for prompt in there])
    return [
        TailRow(prompt.message_id, prompt.fingerprint, known.get(prompt.message_id), False, "system", 0, True)
        for prompt in there
    ]


def _unclaimed(archive: Archive, conversation: Conversation) -> list[TailRow]:
    """The rows behind the last one that a producer without entry ids has brought: mostly few."""
    for most in (_FEW_ROWS, _ADOPTION_ROWS):
        rows = archive.messages.tail(conversation.id, most)
        last = max((n for n, row in enumerate(rows) if row.claimed), default=-1)
        if last >= 0 or len(rows) < most:
            break
    return rows[last + 1 :]


def copy_detector(archive: Archive) -> IsCopy:
    """Recognises other wordings of stored rows."""

    def is_copy(event: Event, row: TailRow, *, alone: bool) -> bool:
        stored = archive.messages.get(row.id).message
        is_alike = likeness.score_likeness(stored, event.message) >= (1.0 if alone else 0.5)
        return is_alike or is_referenced(stored, event.message) or likeness.is_cut_result(stored, event.message)

    return is_copy


def sync(
    archive: Archive,
    session: Session,
    items: Sequence[MessageLike],
    *,
    key: str | None,
    now: datetime,
    timezone: tzinfo | None = None,
    payloads: PayloadPolicy | None = None,
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
        items = mask_items(archive, conversation.id, items)
        read = partial(_read_window, archive, items=items, timezone=timezone, whole=whole)
        conversation, seen = choose_tab(archive, session, conversation, read(conversation), read, now)
        apart = _choose_quarantine(archive, conversation, read, seen.plan, now)
        if apart is None:
            report = _store_window(archive, conversation, seen, items, payloads, now, whole=whole)
        else:
            report = _store_window(archive, apart.conversation, apart.seen, items, payloads, now, whole=whole)
            report = replace(report, conversation_id=conversation.id, conversation=conversation, cause="disjoint")
            report = replace(report, blocked=apart.reason, quarantine_id=apart.conversation.id)
        _remember_key(archive, conversation, key, seen.window.events, now)
    return report


def _store_window(
    archive: Archive,
    conversation: Conversation,
    seen: SeenWindow,
    items: Sequence[MessageLike],
    payloads: PayloadPolicy | None,
    now: datetime,
    *,
    whole: bool,
) -> AppendReport:
    """Store what a window adds to a conversation, as it was read against it."""
    window, plan = seen.window, seen.plan
    is_first = seen.before is None and archive.messages.newest_id(conversation.id) is None
    is_all = whole and seen.is_laid_over
    prompts = write_system_prompts(
        archive, conversation, window.preamble, now, is_first=is_first, is_all=is_all or seen.has_lost_prompts
    )
    plan = replace(plan, versions=(*plan.versions, *prompts.changed)) if prompts.changed else plan
    if is_all:
        plan = hide_unshown(archive, conversation, window, plan, now)
    said, revised = write_plan(archive, conversation, plan, payloads, now)
    appended = prompts.appended + said
    remember_window(archive, conversation.id, replace(seen, plan=plan), len(items), (prompts.ids, said.ids), now)
    update_counters(archive, conversation, plan, window, appended, now, fits=True, revised=revised)
    replayed = len(items) - len(appended.ids) - len(window.skips)
    return append_report(conversation, plan, window.skips, appended.ids, replayed, revised)


def _read_window(
    archive: Archive,
    conversation: Conversation,
    *,
    items: Sequence[MessageLike],
    timezone: tzinfo | None,
    whole: bool,
) -> SeenWindow:
    """A window against the archive, by the cheapest way that is certain.

    One that begins with the last one has grown, and the rest of it is new. One that begins with the end of the last
    one has moved on. Of one that begins as the last one did only the rest is compared. Any other is laid over the rows.
    """
    mark, prints = archive.ingest.window(conversation.id), window_prints(items)
    reader = _WindowReader(archive, conversation, items, prints, timezone)
    if mark is None or (whole and not prints.startswith(mark.chain) and is_cut_short(prints, mark.chain)):
        return reader.laid_over(mark)
    is_newest = mark.last_id == archive.messages.newest_said_id(conversation.id)
    if is_newest and prints.startswith(mark.chain):
        return reader.grown(mark)
    return reader.moved_on(mark, is_newest=is_newest) or (not whole and reader.rest(mark)) or reader.laid_over(mark)


class _WindowReader:
    """Reads one window in one of four ways."""

    def __init__(
        self,
        archive: Archive,
        conversation: Conversation,
        items: Sequence[MessageLike],
        prints: bytes,
        timezone: tzinfo | None,
    ) -> None:
        self._archive, self._conversation, self._items = archive, conversation, items
        self._prints, self._timezone = prints, timezone
        self._head = count_system_head(items)

    def grown(self, mark: WindowMark) -> SeenWindow:
        """All of the last window, and then what is new."""
        window = self._window(mark.length)
        plan = plan_grown(self._archive, self._conversation.id, window.events)
        if not window.size and not self._has_ids():
            plan = replace(plan, ambiguous=possible_repeats(self._prints[_PRINT * self._head :]))
        rows = mark.rows if mark.rows is not None else (0,) * mark.length
        return SeenWindow(window, plan, mark, self._prints, rows)

    def moved_on(self, mark: WindowMark, *, is_newest: bool) -> SeenWindow | None:
        """The end of the last window, behind the same prompts, and then what is new."""
        start = _PRINT * self._head
        if not is_newest or mark.rows is None or _prompts(mark) != self._head:
            return None
        if mark.chain[:start] != self._prints[:start]:
            return None
        size, open_ = moved_overlap(self._prints[start:], mark.chain[start:])
        rows = mark.rows[mark.length - size :]
        if not size or min(rows) <= 0:
            return None
        window = self._window(self._head + size)
        plan = plan_grown(self._archive, self._conversation.id, window.events)
        if not self._has_ids():
            plan = replace(plan, ambiguous=open_)
        return SeenWindow(window, plan, mark, self._prints, mark.rows[: self._head] + rows)

    def rest(self, mark: WindowMark) -> SeenWindow | None:
        """What follows the common beginning, compared with what followed it in the last window and was stored since."""
        if mark.rows is None:
            return None
        before = _prompts(mark)
        same = common_prefix(self._prints[_PRINT * self._head :], mark.chain[_PRINT * before :])
        start, last = self._head + same, before + same
        if not same or max(len(self._items) - start, mark.length - last) > _MAX_REST:
            return None
        window = self._with_prompts(self._window(start))
        followed = list(dict.fromkeys(row for row in mark.rows[last - 1 :] if row > 0))
        known = frozenset(mark.rows)
        newer = [
            row
            for row in self._archive.messages.tail(self._conversation.id, _MAX_REST)
            if row.id > (mark.last_id or 0) and row.id not in known
        ]
        rows = [*self._archive.messages.tail_rows(self._conversation.id, followed), *newer]
        if not rows or rows[0].id != mark.rows[last - 1]:  # what it follows has left the context meanwhile
            return None
        plan = plan_rest(self._archive, self._conversation.id, window.events, rows, mark)
        if not window.events and not self._has_ids() and self._ends_short():
            plan = replace(plan, ambiguous=1)  # an old window again, or an answer that was asked for again in a word
        has_lost = not self._head and min(mark.rows) < 0
        rows_before = (0,) * self._head + mark.rows[before:last]
        return SeenWindow(window, plan, mark, self._prints, rows_before, has_lost_prompts=has_lost)

    def laid_over(self, mark: WindowMark | None) -> SeenWindow:
        """All of it, laid over the rows."""
        window = read_window(self._archive, self._conversation.id, self._items, self._timezone)
        window = self._without_copies(window, follows=False)
        plan = plan_aligned(self._archive, self._conversation.id, window.events, mark)
        return SeenWindow(window, plan, mark, self._prints, is_laid_over=True)

    def _has_ids(self) -> bool:
        """Whether the host names its messages, so that a repeat is never in doubt."""
        return any(isinstance(item, Incoming) and item.entry_id is not None for item in self._items)

    def _ends_short(self) -> bool:
        events, _ = incoming.read_events(self._items[-1:])
        return bool(events) and likeness.is_short(events[0].message)

    def _window(self, start: int) -> IncomingWindow:
        """The window from a message on."""
        rest = read_window(self._archive, self._conversation.id, self._items[start:], self._timezone, max(1, start))
        return self._without_copies(rest, follows=True)

    def _with_prompts(self, rest: IncomingWindow) -> IncomingWindow:
        """The rest of a window, and the system prompts that it begins with."""
        head = read_window(self._archive, self._conversation.id, self._items[: self._head], self._timezone)
        return replace(rest, preamble=head.preamble, skips=(*head.skips, *rest.skips), size=rest.size + head.size)

    def _without_copies(self, window: IncomingWindow, *, follows: bool) -> IncomingWindow:
        skips = list(window.skips)
        events = drop_delivery_notes(self._archive, self._conversation, window.events, skips, follows=follows)
        return replace(window, events=tuple(events), skips=tuple(skips)) if len(skips) > len(window.skips) else window


def _prompts(mark: WindowMark) -> int:
    """How many messages the last window began with that have no place in the order of what was said."""
    return next((n for n, row in enumerate(mark.rows or ()) if row > 0), mark.length)


def remember_window(
    archive: Archive,
    conversation_id: int,
    seen: SeenWindow,
    length: int,
    ids: tuple[Sequence[int], Sequence[int]],
    now: datetime,
) -> None:
    """Note what a window showed; an old one shown again does not replace a newer one.

    `ids` are the rows of its prompts, which are noted as negative numbers, and its new rows.
    """
    prompts, fresh = ids[0], iter(ids[1])
    rows = [*seen.rows, *[0] * (length - len(seen.rows))]
    for event, id_ in zip(seen.window.preamble, prompts, strict=False):
        rows[event.index] = -id_
    for event, place in zip(seen.window.events, seen.plan.places or [None] * len(seen.plan.new), strict=True):
        rows[event.index] = next(fresh) if place is None else place
    said = [row for row in rows if row > 0]
    if not said:
        return
    before, plan, last = seen.before, seen.plan, max(said)
    older = before is not None and before.last_id is not None and last < before.last_id
    if before is not None and last == before.last_id and len(seen.prints) < len(before.chain):
        older = before.chain.endswith(seen.prints)  # the end of it alone
    if older and not (plan.revived or plan.new or plan.abandoned or plan.versions or plan.hidden):
        return
    archive.ingest.set_window(conversation_id, WindowMark(said[0], last, length, seen.prints, tuple(rows)), now)


def _check_names(session: Session, key: str | None) -> None:
    for what, name in (("session key", session.key), ("session id", session.id), ("key", key)):
        if name is not None and not incoming.is_encodable(name):
            raise BadInput(f"the {what} holds half a surrogate pair, which is no text")


def _flood_cap(archive: Archive, conversation: Conversation, plan: IngestPlan) -> int | None:
    """The cap that a disjoint window exceeds, or None."""
    tail = archive.messages.tail(conversation.id, 1)
    cap = max(_FLOOD_FLOOR, (tail[-1].seq if tail else 0) // _FLOOD_SHARE)
    return cap if len(plan.new) > cap else None


@dataclass(frozen=True, slots=True)
class _Quarantine:
    """A conversation beside a session's active one, a window against it, and why it goes there."""

    conversation: Conversation
    seen: SeenWindow
    reason: str


def _choose_quarantine(
    archive: Archive,
    conversation: Conversation,
    read: Callable[[Conversation], SeenWindow],
    plan: IngestPlan,
    now: datetime,
) -> _Quarantine | None:
    """Where a window goes that has nothing in common with its conversation: to what is quarantined and has.

    One that is over the cap is quarantined itself; None for one that is stored where it belongs.
    """
    if plan.cause != "disjoint":
        return None
    for other in archive.conversations.quarantined_of(conversation):
        seen = read(other)
        if seen.plan.cause != "disjoint":
            was = "somebody refused" if other.archive_cause == "refused" else "is quarantined"
            return _Quarantine(other, seen, f"the window goes on with what {was}, in conversation {other.id}")
    cap = _flood_cap(archive, conversation, plan)
    if cap is None:
        return None
    made = archive.conversations.quarantine(conversation, now)
    reason = (
        f"a window of {len(plan.new)} messages has nothing in common with conversation {conversation.id}, and more "
        f"than {cap} at once are not taken over: they are quarantined in conversation {made.id}, until "
        f"`lcm quarantine accept {made.id}` or `lcm quarantine refuse {made.id}`"
    )
    return _Quarantine(made, read(made), reason)


def write_plan(
    archive: Archive, conversation: Conversation, plan: IngestPlan, payloads: PayloadPolicy | None, now: datetime
) -> tuple[Appended, int]:
    """Carry out a plan inside the caller's transaction; returns the new rows, and how many rows have other words."""
    if plan.stamps:
        archive.messages.stamp(plan.stamps)
    if plan.claims:
        archive.messages.claim(plan.claims)
    if plan.abandoned or plan.revived or plan.insertions or plan.hidden:
        appended = _branch(archive, conversation, plan, payloads, now)
    else:
        appended = _store(archive, conversation, plan, payloads, now)
    if not plan.versions and not plan.cuts:
        return appended, 0
    new = [(id_, _new_message(event, now)) for id_, event in plan.versions]
    return appended, write_versions(archive, conversation, plan, new, payloads, now)


def _store(
    archive: Archive, conversation: Conversation, plan: IngestPlan, payloads: PayloadPolicy | None, now: datetime
) -> Appended:
    new = _with_own_keys(archive, conversation, [_new_message(event, now) for event in plan.new])
    appended = store_messages(archive, conversation, new, payloads, now)
    hide_quiet_turns(archive, conversation, plan.new, appended.ids, now)
    return appended


def _with_own_keys(archive: Archive, conversation: Conversation, new: list[NewMessage]) -> list[NewMessage]:
    """Messages as they are stored: a call's id that another result has stays with that one."""
    keys = [item.event_key for item in new if item.event_key is not None]
    taken: set[str | None] = {*archive.messages.known_events(conversation.id, keys)} if keys else set()
    for n, item in enumerate(new):
        if item.event_key in taken:
            new[n] = replace(item, event_key=None)
        elif item.event_key is not None:
            taken.add(item.event_key)
    return new


def _new_message(event: Event, now: datetime) -> NewMessage:
    at = event.created_at or now
    message = event.message
    sender = host_filters.sender_of(message)
    return NewMessage(message, event.identity, event.fingerprint, at, event.entry_id, message.event_key, sender)


def _branch(
    archive: Archive, conversation: Conversation, plan: IngestPlan, payloads: PayloadPolicy | None, now: datetime
) -> Appended:
    """Take out what the host left or removed, put back what it returned to, and store what is new at its place."""
    before = archive.context.tokens(conversation.id)
    if plan.abandoned:
        archive.context.hide(conversation.id, plan.abandoned, "branch", now)
    for cause in dict.fromkeys(cause for _, cause in plan.hidden):
        archive.context.hide(conversation.id, [id_ for id_, why in plan.hidden if why == cause], cause, now)
    if plan.revived:
        archive.context.reveal(conversation.id, plan.revived, now)
    appended = _store(archive, conversation, plan, payloads, now)
    placed = _place(archive, conversation, plan, appended.ids, now)
    archive.summaries.mark_stale((*plan.abandoned, *(id_ for id_, _ in plan.hidden), *plan.revived), now)
    after = archive.context.tokens(conversation.id)
    gone = (*plan.abandoned, *(id_ for id_, _ in plan.hidden))
    why = plan.cause if plan.abandoned or plan.revived else next((cause for _, cause in plan.hidden), plan.cause)
    added = tuple(dict.fromkeys((*plan.revived, *placed)))
    change = ContextChange("branch", "sync", why, gone, added, None, before, after)
    archive.context.log(conversation.id, change, now)
    archive.context.close_gaps(conversation.id)
    return appended


def _place(
    archive: Archive, conversation: Conversation, plan: IngestPlan, ids: Sequence[int], now: datetime
) -> list[int]:
    """Set messages where the window has them; returns those that do not just follow at the end.

    One that stands before a folded message joins the sources of the leaf there.
    """
    rows = {event.index: id_ for event, id_ in zip(plan.new, ids, strict=True)}
    rows |= plan.rows_by_event
    placed: list[int] = []
    for one in plan.insertions:
        some = [rows[index] for index in one.events if index in rows]
        folded = archive.context.covered(conversation.id, some)
        some = [id_ for id_ in some if id_ not in folded]
        if one.before:
            if not join_leaf(archive, conversation.id, some, one.before[0], now):
                archive.context.insert_before(conversation.id, some, one.before, now)
        else:
            archive.context.reveal(conversation.id, some, now)
            some = [id_ for id_ in some if id_ not in ids]
        placed += some
    return placed


def update_counters(
    archive: Archive,
    conversation: Conversation,
    plan: IngestPlan,
    window: IncomingWindow,
    appended: Appended,
    now: datetime,
    *,
    fits: bool,
    revised: int = 0,
) -> None:
    """Add to the counters; input that fits ends the time in which a conversation refused it."""
    events = (*window.preamble, *window.events)
    with_ids = any(event.entry_id is not None for event in events)
    without = any(event.entry_id is None for event in events)
    counts = IngestCounts(
        seen=window.size,
        stored=len(appended.ids),
        replayed=window.size - len(window.skips) - len(appended.ids),
        skipped=len(window.skips),
        ambiguous=plan.ambiguous,
        revised=revised,
        likely=plan.likely,
        fits=fits,
        producers=(WITH_IDS if with_ids else 0) | (WITHOUT_IDS if without else 0),
        tokens=appended.tokens,
        extra=appended.extra,
        last_seq=appended.last_seq,
    )
    archive.ingest.count(conversation.id, counts, now)


def _remember_key(
    archive: Archive, conversation: Conversation, key: str | None, events: Sequence[Event], now: datetime
) -> None:
    if key is not None:
        archive.ingest.remember_key(conversation, key, entry_ids_of(events), len(events), _payload(events), now)


def _payload(events: Sequence[Event]) -> str:
    """The digest of what a batch says."""
    return hashlib.sha256(b"".join(event.fingerprint for event in events)).hexdigest()


def append_report(
    conversation: Conversation,
    plan: IngestPlan,
    skips: Sequence[Skip],
    ids: Sequence[int],
    replayed: int,
    revised: int = 0,
) -> AppendReport:
    """What a call did, for its caller."""
    return AppendReport(
        conversation.id,
        stored=len(ids),
        replayed=replayed,
        skipped=tuple(skips),
        stamped=len(plan.stamps),
        revised=revised,
        likely=plan.likely,
        ambiguous=plan.ambiguous,
        abandoned=len(plan.abandoned),
        cause=plan.cause,
        message_ids=tuple(ids),
        changes_past=bool(plan.versions or plan.abandoned or plan.hidden or plan.revived or plan.insertions),
        conversation=conversation,
    )
