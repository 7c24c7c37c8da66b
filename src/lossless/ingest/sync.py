"""Stores what a host's window adds, by the cheapest reliable method; a window with nothing in common with its
conversation is quarantined. A session that is open in two tabs gets a conversation for each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING

from lossless.ingest import events as incoming
from lossless.ingest import likeness
from lossless.ingest.events import mask_items
from lossless.ingest.match import SURE
from lossless.ingest.run import AppendReport, ConversationWriter, check_names, drop_delivery_notes
from lossless.ingest.window import (
    IncomingWindow,
    common_prefix,
    count_system_head,
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
from lossless.model.messages import Incoming, MessageLike
from lossless.model.records import WindowMark

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime, tzinfo

    from lossless.ingest.plan import IngestPlan
    from lossless.ingest.run import PayloadPolicy
    from lossless.model.conversations import Conversation, Session
    from lossless.store.archive import Archive

#: The cause of closing a conversation for another tab of its session.
TAB = "tab"
#: How many tabs are checked, most recently closed first.
_TABS = 16
#: How many messages of a branch are checked.
_SOON = 256


def choose_tab(
    archive: Archive,
    session: Session,
    conversation: Conversation,
    seen: SeenWindow,
    read: Callable[[Conversation], SeenWindow],
    now: datetime,
) -> tuple[Conversation, SeenWindow]:
    """The conversation of a window that does not continue the active one, and the window compared with it.

    It becomes the active one. `read` compares the window with another conversation.
    """
    if session.is_cron or not (seen.plan.abandoned or seen.plan.cause == "disjoint"):
        return conversation, seen
    best = conversation, seen
    for other in archive.conversations.closed_for(conversation, TAB, _TABS):
        there = read(other)
        if there.plan.cause != "disjoint" and _count_abandoned(there.plan) < _count_abandoned(best[1].plan):
            best = other, there
    if best[0] is conversation and _is_second_return(archive, conversation, seen.plan):
        archive.conversations.archive(conversation.id, TAB, now)
        opened = archive.conversations.open(session, now)
        return opened, read(opened)
    if best[0] is not conversation:
        archive.conversations.archive(conversation.id, TAB, now)
        archive.conversations.reopen(best[0].id, now)
        best = archive.conversations.get(best[0].id), best[1]
    return best


def _count_abandoned(plan: IngestPlan) -> int:
    return len(plan.abandoned) + len(plan.revived) if plan.cause != "disjoint" else 1 << 30


def _is_second_return(archive: Archive, conversation: Conversation, plan: IngestPlan) -> bool:
    """Whether a host returns to a branch, and leaves one for it that it had returned to before.

    A user has spoken on both: an answer that is regenerated repeatedly is not a tab.
    """
    if not plan.revived or not plan.abandoned:
        return False
    if not archive.context.has_returned(conversation.id, plan.abandoned, plan.revived):
        return False
    branches = [archive.messages.many(sorted(ids)[:_SOON]) for ids in (plan.revived, plan.abandoned)]
    return all(any(row.message.role == "user" for row in rows) for rows in branches)


#: The maximum difference of a window from the last one for comparing only the rest.
_MAX_REST = 256
#: Bytes for each message of a window.
_PRINT = 8
#: A window without anything in common with the archive is stored up to this many messages, or a fifth of what is there.
_FLOOD_FLOOR, _FLOOD_SHARE = 50, 5


@dataclass(frozen=True, slots=True)
class SeenWindow:
    """A window compared with the archive: what of it is new, and what to record of it."""

    window: IncomingWindow
    plan: IngestPlan
    before: WindowMark | None
    prints: bytes
    #: The known rows of the messages before those of `window`, which were not read.
    rows: tuple[int, ...] = ()
    #: Whether the whole window was aligned with the rows.
    is_laid_over: bool = False
    #: Whether the last window began with system prompts, and this one with what followed them.
    has_lost_prompts: bool = False


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

    With `whole` it is the complete conversation: messages that it no longer shows leave the context.
    """
    check_names(session, key)
    with archive.writing():
        conversation = archive.conversations.open(session, now)
        if key is not None and archive.ingest.has_key(conversation.id, key):
            return AppendReport(conversation.id, replayed=len(items))
        asked, items = conversation.id, mask_items(archive, conversation.id, items)

        def read(other: Conversation) -> SeenWindow:  # also without what was forgotten in that conversation
            kept = items if other.id == asked else mask_items(archive, other.id, items)
            return _read_window(archive, other, items=kept, timezone=timezone, whole=whole)

        conversation, seen = choose_tab(archive, session, conversation, read(conversation), read, now)
        writer = ConversationWriter(archive, conversation, now, payloads)
        quarantined = _choose_quarantine(archive, conversation, read, seen.plan, now)
        if quarantined is None:
            report = _store_window(writer, seen, len(items), whole=whole)
        else:
            quarantine, other, reason = quarantined
            beside = ConversationWriter(archive, quarantine, now, payloads)
            report = _store_window(beside, other, len(items), whole=whole)
            report = replace(report, conversation_id=conversation.id, conversation=conversation, cause="disjoint")
            report = replace(report, blocked=reason, quarantine_id=quarantine.id)
        writer.remember_key(key, seen.window.events)
    return report


def _store_window(writer: ConversationWriter, seen: SeenWindow, length: int, *, whole: bool) -> AppendReport:
    archive, id_, window, plan = writer.archive, writer.id, seen.window, seen.plan
    is_first = seen.before is None and archive.messages.newest_id(id_) is None
    is_all = whole and seen.is_laid_over
    prompt_ids, prompts, changed = writer.write_system_prompts(
        window.preamble, is_first=is_first, is_all=is_all or seen.has_lost_prompts
    )
    plan = replace(plan, versions=(*plan.versions, *changed)) if changed else plan
    if is_all:
        plan = hide_unshown(archive, writer.conversation, window, plan, writer.now)
    new_rows, revised = writer.write(plan)
    appended = prompts + new_rows
    remember_window(archive, id_, replace(seen, plan=plan), length, (prompt_ids, new_rows.ids), writer.now)
    writer.count(plan, window, appended, fits=True, revised=revised)
    replayed = length - len(appended.ids) - len(window.skips)
    return writer.report(plan, window.skips, appended.ids, replayed, revised)


def _read_window(
    archive: Archive,
    conversation: Conversation,
    *,
    items: Sequence[MessageLike],
    timezone: tzinfo | None,
    whole: bool,
) -> SeenWindow:
    """A window compared with the archive, by the cheapest reliable method.

    One that begins with the last one has grown, and the rest is new. One that begins with the end of the last one has
    moved on. Of one with the same beginning only the rest is compared. Any other is aligned with the rows.
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
    """Reads one window by one of four methods."""

    def __init__(
        self,
        archive: Archive,
        conversation: Conversation,
        items: Sequence[MessageLike],
        prints: bytes,
        timezone: tzinfo | None,
    ) -> None:
        self._archive, self._id, self._items = archive, conversation.id, items
        self._prints, self._timezone = prints, timezone
        self._head = count_system_head(items)

    def grown(self, mark: WindowMark) -> SeenWindow:
        """The whole last window, then new messages."""
        window = self._window(mark.length)
        plan = plan_grown(self._archive, self._id, window.events)
        if not window.size and not self._has_ids():
            repeats = possible_repeats(self._prints[_PRINT * self._head :], self._is_short_at)
            plan = replace(plan, ambiguous=repeats)
        rows = mark.rows if mark.rows is not None else (0,) * mark.length
        return SeenWindow(window, plan, mark, self._prints, rows)

    def moved_on(self, mark: WindowMark, *, is_newest: bool) -> SeenWindow | None:
        """The end of the last window, after the same prompts, then new messages."""
        start = _PRINT * self._head
        if not is_newest or mark.rows is None or _prompts(mark) != self._head:
            return None
        if mark.chain[:start] != self._prints[:start]:
            return None
        size, open_ = moved_overlap(self._prints[start:], mark.chain[start:], self._is_short_at)
        rows = mark.rows[mark.length - size :]
        if not size or min(rows) <= 0:
            return None
        window = self._window(self._head + size)
        plan = plan_grown(self._archive, self._id, window.events)
        if not self._has_ids():
            known = incoming.read_events(self._items[self._head : self._head + size])[0] if size < SURE else []
            is_open = size < SURE and all(likeness.may_be_said_again(event.message) for event in known)
            plan = replace(plan, ambiguous=size if is_open else open_)
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
        if same < SURE and all(map(self._is_short, self._items[self._head : start])):  # it may be a later message
            return None
        window = self._window(start)
        head = read_window(self._archive, self._id, self._items[: self._head], self._timezone)
        skips = (*head.skips, *window.skips)
        window = replace(window, preamble=head.preamble, skips=skips, size=window.size + head.size)
        followed = list(dict.fromkeys(row for row in mark.rows[last - 1 :] if row > 0))
        known = frozenset(mark.rows)
        others = [row for row in self._archive.messages.tail(self._id, _MAX_REST) if row.id not in known]
        newer = [row for row in others if row.id > (mark.last_id or 0)]
        rows = [*self._archive.messages.tail_rows(self._id, followed), *newer]
        if not rows or rows[0].id != mark.rows[last - 1]:  # the preceding message has left the context meanwhile
            return None
        if any(row.seq > rows[0].seq for row in others[: len(others) - len(newer)]):  # the host has omitted some
            return None
        plan = plan_rest(self._archive, self._id, window.events, rows, mark)
        if not window.events and not self._has_ids() and self._is_short(self._items[-1]):
            plan = replace(plan, ambiguous=1)  # an old window again, or a very short request for another answer
        places = zip(window.events, plan.places, strict=False)
        new = next((event.index for event, place in places if place is None), None)
        if plan.abandoned and new is not None and not self._has_ids():
            repeats = self._count_short_before(new)
            plan = replace(plan, ambiguous=plan.ambiguous + repeats if new == start else max(plan.ambiguous, repeats))
        rows_before = (0,) * self._head + mark.rows[last - same : last]
        return SeenWindow(window, plan, mark, self._prints, rows_before, has_lost_prompts=self._has_lost_prompts(mark))

    def _count_short_before(self, start: int) -> int:
        """How many very short messages are right before a position: they may be repeats on another branch."""
        before = (self._items[n] for n in range(start - 1, self._head - 1, -1))
        return sum(1 for _ in takewhile(self._may_be_repeated, before))

    def _may_be_repeated(self, item: MessageLike) -> bool:
        if not self._is_short(item):
            return False
        return all(likeness.may_be_called_again(event.message) for event in incoming.read_events([item])[0])

    def laid_over(self, mark: WindowMark | None) -> SeenWindow:
        """The whole window, aligned with the rows."""
        window = read_window(self._archive, self._id, self._items, self._timezone)
        window = self._without_copies(window, follows=False)
        is_cut = mark is not None and self._has_lost_prompts(mark)
        plan = plan_aligned(self._archive, self._id, window.events, mark, is_cut=is_cut)
        has_lost = is_cut and mark is not None and plan.places[:1] == (mark.first_id,)
        return SeenWindow(window, plan, mark, self._prints, is_laid_over=True, has_lost_prompts=has_lost)

    def _has_lost_prompts(self, mark: WindowMark) -> bool:
        return not self._head and min(mark.rows or (0,)) < 0

    def _has_ids(self) -> bool:
        """Whether the host assigns ids, so that repeats are certain."""
        return any(isinstance(item, Incoming) and item.entry_id is not None for item in self._items)

    def _is_short_at(self, place: int) -> bool:
        """Of a message after the prompts at the beginning."""
        return self._is_short(self._items[self._head + place])

    def _is_short(self, item: MessageLike) -> bool:
        events, _ = incoming.read_events([item])
        return bool(events) and likeness.is_short(events[0].message)

    def _window(self, start: int) -> IncomingWindow:
        rest = read_window(self._archive, self._id, self._items[start:], self._timezone, max(1, start))
        return self._without_copies(rest, follows=True)

    def _without_copies(self, window: IncomingWindow, *, follows: bool) -> IncomingWindow:
        skips = list(window.skips)
        events = drop_delivery_notes(self._archive, self._id, window.events, skips, follows=follows)
        return replace(window, events=tuple(events), skips=tuple(skips)) if len(skips) > len(window.skips) else window


def _prompts(mark: WindowMark) -> int:
    """How many leading messages of the last window have no position in the order of messages."""
    return next((n for n, row in enumerate(mark.rows or ()) if row > 0), mark.length)


def remember_window(
    archive: Archive,
    conversation_id: int,
    seen: SeenWindow,
    length: int,
    ids: tuple[Sequence[int], Sequence[int]],
    now: datetime,
) -> None:
    """Record what a window showed; an old one does not replace a newer one.

    `ids` are the rows of its prompts, recorded as negative numbers, and its new rows.
    """
    prompts, fresh = ids[0], iter(ids[1])
    rows = [*seen.rows, *[0] * (length - len(seen.rows))]
    for event, id_ in zip(seen.window.preamble, prompts, strict=False):
        rows[event.index] = -id_
    for event, place in zip(seen.window.events, seen.plan.places or [None] * len(seen.plan.new), strict=True):
        rows[event.index] = next(fresh) if place is None else place
    before, plan, last = seen.before, seen.plan, max(rows, default=0)
    if last <= 0:
        return
    older = before is not None and before.last_id is not None and last < before.last_id
    if before is not None and last == before.last_id and len(seen.prints) < len(before.chain):
        older = before.chain.endswith(seen.prints)  # only its end
    if older and not (plan.revived or plan.new or plan.abandoned or plan.versions or plan.hidden):
        return
    first = next(row for row in rows if row > 0)
    archive.ingest.set_window(conversation_id, WindowMark(first, last, length, seen.prints, tuple(rows)), now)


def _choose_quarantine(
    archive: Archive,
    conversation: Conversation,
    read: Callable[[Conversation], SeenWindow],
    plan: IngestPlan,
    now: datetime,
) -> tuple[Conversation, SeenWindow, str] | None:
    """Where a disjoint window goes: to a quarantined conversation that it matches; with the window compared to that,
    and the reason.

    One over the cap is quarantined; None for one that is stored in its own conversation.
    """
    if plan.cause != "disjoint":
        return None
    for other in archive.conversations.quarantined_of(conversation):
        seen = read(other)
        if seen.plan.cause != "disjoint":
            was = "was refused" if other.archive_cause == "refused" else "is quarantined"
            return other, seen, f"the window continues what {was}, in conversation {other.id}"
    tail = archive.messages.tail(conversation.id, 1)
    cap = max(_FLOOD_FLOOR, (tail[-1].seq if tail else 0) // _FLOOD_SHARE)
    if len(plan.new) <= cap:
        return None
    made = archive.conversations.quarantine(conversation, now)
    reason = (
        f"a window of {len(plan.new)} messages has nothing in common with conversation {conversation.id}, and more "
        f"than {cap} at once are not accepted: they are quarantined in conversation {made.id}, until "
        f"`lcm quarantine accept {made.id}` or `lcm quarantine refuse {made.id}`"
    )
    return made, read(made), reason
