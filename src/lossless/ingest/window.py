"""Compares a host's window with the archive: prints that recognise a repeated, grown or moved window, the plan of
what it adds, and what a complete window no longer shows.
"""

from __future__ import annotations

import marshal
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from hashlib import blake2b
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from lossless.ingest import call_ids, likeness
from lossless.ingest import events as incoming
from lossless.ingest.events import entry_ids_of
from lossless.ingest.match import SURE
from lossless.ingest.plan import IngestPlan, StoredRows, plan_append, plan_window, with_own_ids
from lossless.ingest.sequences import overlap
from lossless.ingest.synthetic import identify_synthetic, match_referenced_rows
from lossless.model.identity import fingerprint
from lossless.model.js_json import storable_text
from lossless.model.messages import GENERATED_ID_PREFIX, Incoming, Message, MessageLike, Reasoning
from lossless.model.records import ContextChange
from lossless.store.context import item_id
from lossless.store.maintenance.surgery import SurgeryWrites

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from datetime import datetime, tzinfo

    from lossless.ingest.events import Event, Skip
    from lossless.model.conversations import Conversation
    from lossless.model.records import TailRow, WindowMark
    from lossless.store.archive import Archive

#: How many rows beyond a window's own length are aligned with it.
_TAIL_MARGIN = 256
#: A conversation with at most so many more messages than a window counts as fully shown, if nothing else is known.
_FEW = 8
#: How many messages of a window are looked up to find an old position, and how often a rare one may be stored.
_PROBES, _RARE = 32, 16


@dataclass(frozen=True, slots=True)
class IncomingWindow:
    """A decoded window or batch: its system prompts, its other messages, and skipped ones."""

    preamble: tuple[Event, ...]
    events: tuple[Event, ...]
    skips: tuple[Skip, ...]
    #: How many messages were read, including duplicates in the window.
    size: int
    #: Whether it contains text of ours that replaces other messages.
    has_ours: bool = False
    #: Positions of entries of a transcript that cannot be decoded, and the problem of each.
    unreadable: tuple[Skip, ...] = ()


def count_system_head(window: Sequence[MessageLike]) -> int:
    """The number of leading system prompts of a window."""
    head = 0
    for item in window:
        body: object = item.message if isinstance(item, Incoming) else item
        role = (
            body.role if isinstance(body, Message) else body.get("role") if isinstance(body, dict | Mapping) else None
        )
        if role not in ("system", "developer"):
            break
        head += 1
    return head


def read_window(
    archive: Archive,
    conversation_id: int,
    window: Sequence[MessageLike],
    timezone: tzinfo | None,
    first: int = 0,
) -> IncomingWindow:
    """Decode a window without what we put into it: summaries, cues, stubs and pins."""
    events, skips = incoming.read_events(window, first)
    kept: list[Event] = []
    unreadable = len(skips)
    for event in with_own_ids(events):
        if (what := identify_synthetic(archive, conversation_id, event.message, timezone)) is not None:
            skips.append(incoming.Skip(event.index, what))
        else:
            kept.append(event)
    head = 0
    while first == 0 and head < len(kept) and kept[head].message.role == "system":
        head += 1
    return IncomingWindow(tuple(kept[:head]), tuple(kept[head:]), tuple(skips), len(window), len(skips) > unreadable)


def plan_grown(archive: Archive, conversation_id: int, events: Sequence[Event]) -> IngestPlan:
    """The window begins with the last one and nothing was stored since: the rest is new, except known entry ids."""
    return plan_append(events, archive.messages.known_entries(conversation_id, entry_ids_of(events)))


def plan_rest(
    archive: Archive, conversation_id: int, events: Sequence[Event], rows: Sequence[TailRow], mark: WindowMark
) -> IngestPlan:
    """The plan for what follows the common beginning of a window and the last one.

    `rows` are the last row of that beginning, and those that followed it so far.
    """
    by_entry = archive.messages.known_entries(conversation_id, entry_ids_of(events))
    stored = StoredRows(tuple(rows[1:]), frozenset(mark.rows or ()), True, rows[0].seq, by_entry)
    return plan_over(archive, conversation_id, events, stored)


def plan_aligned(
    archive: Archive,
    conversation_id: int,
    events: Sequence[Event],
    mark: WindowMark | None,
    *,
    in_use: frozenset[str] = frozenset(),
    is_cut: bool = False,
) -> IngestPlan:
    """Align a window or a path with the newest rows, and with older ones when it does not begin among those.

    `in_use` are ids that are not in it and still name messages: a transcript keeps abandoned branches.
    `is_cut` means that the last window began with prompts that this one lacks.
    """
    by_entry = archive.messages.known_entries(conversation_id, entry_ids_of(events))

    def plan(rows: Sequence[TailRow], *, is_whole: bool) -> IngestPlan:
        in_place = in_context_order(rows, archive.context.ordinals(conversation_id, len(rows)))
        first = rows[0].seq if rows else 0
        older = sorted((row for row in by_entry.values() if row.seq < first), key=lambda row: row.seq)
        if older:  # those that had left the context are not among the rows, and return
            gone = {row.id for row in archive.messages.abandoned_from(conversation_id, older[0].seq)}
            older = [row for row in older if row.id not in gone]
        last = None if mark is None else _rows_shown_by(mark, in_place)
        if mark is None and is_whole and len(rows) <= 2 * len(events) + _FEW:
            last = frozenset(row.id for row in rows)
        begins = is_whole and bool(rows and events) and _begin_alike(in_place, events, () if is_cut else last)
        stored = StoredRows((*older, *in_place), last, follows=begins and not older, by_entry=by_entry)
        return plan_over(archive, conversation_id, events, stored, in_use)

    limit = 2 * max(len(events), mark.length if mark else 0) + _TAIL_MARGIN
    rows = archive.messages.tail(conversation_id, limit)
    is_whole = len(rows) < limit
    found = plan(rows, is_whole=is_whole)
    ids = {row.id for row in rows}
    known = sum(place in ids for place in found.places)
    if not events or is_whole or (found.places[0] in ids and 2 * known >= len(events)):  # it begins among them
        return found
    start = _older_start(archive, conversation_id, events)
    if start is None or start >= rows[0].seq:
        return found
    return plan(archive.messages.run_from(conversation_id, start), is_whole=start <= 1)


def plan_over(
    archive: Archive,
    conversation_id: int,
    events: Sequence[Event],
    stored: StoredRows,
    in_use: frozenset[str] = frozenset(),
) -> IngestPlan:
    """Match events with rows; those that left the context are looked up on demand."""
    events, open_ = _with_stored_calls(archive, conversation_id, events, stored, in_use)
    stored = replace(stored, same=match_referenced_rows(archive, conversation_id, events, stored.rows))
    plan = plan_window(
        events,
        stored,
        RowComparer(archive, events, stored, in_use),
        lambda: archive.messages.abandoned_from(conversation_id, stored.after_seq + 1),
        lambda event, row: _has_other_words(archive, event, row),
    )
    return replace(plan, ambiguous=plan.ambiguous + open_) if open_ else plan


def _with_stored_calls(
    archive: Archive, conversation_id: int, events: Sequence[Event], stored: StoredRows, in_use: frozenset[str]
) -> tuple[Sequence[Event], int]:
    """The events with the ids of stored calls, if their host makes new call ids for every request.

    That is so when none of its calls and results is a row, and a run of messages with a result is one but for the ids.
    With it comes how many of them may be repeats: the run shows nothing after them.
    """
    if not _may_have_new_ids(archive, conversation_id, events, stored.rows):
        return events, 0
    messages = {one.id: one.message for one in archive.messages.many([row.id for row in stored.rows])}
    named = call_ids.name_by_words(list(messages.values()))
    rows = [
        row if one is messages[row.id] else replace(row, fingerprint=fingerprint(one))
        for row, one in zip(stored.rows, named, strict=True)
    ]
    there = replace(stored, rows=tuple(rows))
    shown = _with_messages(events, call_ids.name_by_words([event.message for event in events], named))
    comparer = RowComparer(archive, shown, there, in_use, dict(enumerate(named)))
    places = plan_window(shown, there, comparer, lambda: (), lambda _, __: False).places
    order = {row.id: n for n, row in enumerate(rows)}
    repeats = _shown_again(
        [None if id_ is None else order.get(id_) for id_ in places], shown, rows, follows=stored.follows
    )
    if repeats is None:
        return events, 0
    renamed: dict[str, str] = {}
    for event, id_ in zip(events, places, strict=True):
        stored_ids = call_ids.ids_of(messages[id_]) if id_ in messages else []
        both = zip(call_ids.ids_of(event.message), stored_ids, strict=False)
        renamed |= {mine: theirs for mine, theirs in both if mine and theirs}
    return _with_messages(events, [call_ids.rename(event.message, renamed) for event in events]), repeats


def _with_messages(events: Sequence[Event], messages: Sequence[Message]) -> list[Event]:
    return [
        event if message is event.message else replace(event, message=message, fingerprint=fingerprint(message))
        for event, message in zip(events, messages, strict=True)
    ]


def _may_have_new_ids(archive: Archive, conversation_id: int, events: Sequence[Event], rows: Sequence[TailRow]) -> bool:
    """Whether no call of a window is a row, though a result of one is stored, or a round may be at its place."""
    prints = {row.fingerprint: n for n, row in enumerate(rows)}
    tools = [n for n, event in enumerate(events) if event.message.tool_calls or event.message.tool_results]
    named = [n for n in tools if events[n].message.tool_calls] or tools
    if not tools or any(events[n].fingerprint in prints for n in named):
        return False
    before = (prints.get(events[n - 1].fingerprint, len(rows)) if n else -1 for n in tools)
    behind = ([row.role for row in rows[place + 1 : place + 3]] for place in before)
    if any(roles in (["assistant", "tool"], ["assistant"]) for roles in behind):
        return True
    results = [events[n] for n in tools if events[n].message.tool_results][:_PROBES]
    return any(archive.messages.seqs_of_identity(conversation_id, event.identity, 1) for event in results)


def _shown_again(
    places: Sequence[int | None], shown: Sequence[Event], rows: Sequence[TailRow], *, follows: bool
) -> int | None:
    """How many calls and results of a window may be repeats; None if the window does not show rounds again.

    It does where what follows a result in it is also what follows it in the rows, or where the rows end. So it does
    where a round follows the same longer message as its rows: the answer to it may be another one. With `follows`, an
    equal message precedes both.
    """
    end = max((n + 1 for n, row in enumerate(rows) if row.role != "system"), default=0)  # reminders come and go
    found, size, is_led = None, 0, follows and places[:1] == [0] and not likeness.is_short(shown[0].message)
    for n, (place, event) in enumerate(zip(places, shown, strict=True)):
        before = shown[n - 1] if n else None
        is_next = before is not None and place is not None and places[n - 1] == place - 1
        if is_next and before and before.message.tool_results and not event.message.tool_results:
            return 0
        if place is None or not (event.message.tool_calls or event.message.tool_results):
            size, is_led = 0, False
            continue
        if not size and is_next and before:
            is_led = before.fingerprint == rows[place - 1].fingerprint
            is_led = is_led and not all(map(likeness.is_short, (before.message, event.message)))
        size = size + 1 if is_next else 1
        if place == end - 1 or (is_led and event.message.tool_results):
            found = size if event.entry_id is None else 0
    return found


def _has_other_words(archive: Archive, event: Event, row: TailRow) -> bool:
    if row.fingerprint != event.fingerprint:
        return True
    thinks = any(isinstance(part, Reasoning) for part in event.message.parts)
    return thinks and likeness.has_other_thinking(archive.messages.get(row.id).message, event.message)


def _begin_alike(rows: Sequence[TailRow], events: Sequence[Event], last: Collection[int] | None) -> bool:
    """Whether a window begins with the first row; a very short text that was not shown there says too little."""
    if not _are_one(rows[0], events[0]):
        return False
    if not likeness.is_short(events[0].message) or len(events) == 1 or last is None or rows[0].id in last:
        return True
    return len(rows) > 1 and _are_one(rows[1], events[1])


def _are_one(row: TailRow, event: Event) -> bool:
    is_its = event.entry_id is None or row.entry_id is None or row.entry_id == event.entry_id
    return row.fingerprint == event.fingerprint and is_its


def _rows_shown_by(mark: WindowMark, rows: Sequence[TailRow]) -> frozenset[int]:
    """The rows in the last window; where only its ends are known, those between them."""
    if mark.rows is not None:
        return frozenset(mark.rows) - {0}
    first, last = mark.first_id or 0, mark.last_id or 0
    return frozenset(row.id for row in rows if first <= row.id <= last)


class RowComparer:
    """Compares events and rows for the matcher; a row is read on first use."""

    def __init__(
        self,
        archive: Archive,
        events: Sequence[Event],
        stored: StoredRows,
        in_use: frozenset[str] = frozenset(),
        loaded: Mapping[int, Message] = MappingProxyType({}),
    ) -> None:
        self._archive, self._events, self._stored, self._rows = archive, events, stored, stored.rows
        self._in_use = in_use | {event.entry_id for event in events if event.entry_id is not None}
        self._loaded = dict(loaded)
        #: By the place of a shown message, or by the inverse of a row's.
        self._spelled: dict[int, tuple[object, ...] | None] = {}

    def is_respelled(self, shown: int, row: int) -> bool:
        try:
            mine, theirs = self._spelled[~row], self._spelled[shown]
        except KeyError:
            mine = self._spelled[~row] = likeness.spelling(self._load(row))
            theirs = self._spelled[shown] = likeness.spelling(self._message(shown))
        return mine is not None and mine == theirs

    def may_be(self, shown: int, row: int) -> bool:
        event, stored = self._events[shown], self._rows[row]
        is_equal = event.fingerprint == stored.fingerprint
        if event.message.role != stored.role or not self._may_have_id(shown, row, is_equal=is_equal):
            return False
        return is_equal or likeness.may_be_same(self._load(row), event.message)

    def likeness(self, shown: int, row: int) -> float:
        event = self._events[shown]
        if event.message.role == "system" or (event.message.role == "tool" and not self._is_same_call(shown, row)):
            return 0.0
        return likeness.score_likeness(self._load(row), self._message(shown))

    def holds(self, shown: int, rows: Sequence[int]) -> bool:
        return likeness.contains_all(self._message(shown), [self._load(row) for row in rows])

    def is_held(self, shown: Sequence[int], row: int) -> bool:
        return likeness.is_contained([self._message(one) for one in shown], self._load(row))

    def uses_tools(self, row: int) -> bool:
        message = self._load(row)
        return bool(message.tool_calls or message.tool_results)

    def is_short(self, row: int) -> bool:
        message = self._load(row)
        return likeness.is_short(replace(message, content=likeness.undecorated(message.content)))

    def is_gap_mark(self, shown: int) -> bool:
        return likeness.is_gap_mark(self._events[shown].message)

    def is_lesser(self, shown: int, row: int) -> bool:
        return likeness.is_reduction(self._load(row), self._message(shown))

    def are_rewritten(self, pairs: Sequence[tuple[int, int]]) -> bool:
        both = [(self._load(row), self._message(shown)) for shown, row in pairs]
        return likeness.are_rewritten(both)

    def _is_same_call(self, shown: int, row: int) -> bool:
        """Whether two results are of one call: ids may be reused, so the message with the call must agree."""
        mine = next((self._load(n) for n in range(row, -1, -1) if self._rows[n].role == "assistant"), None)
        before = (self._events[n].message for n in range(shown, -1, -1))
        theirs = next((message for message in before if message.role == "assistant"), None)
        if mine is None or theirs is None:  # a window that begins with results: their ids agree
            return theirs is None
        return not mine.tool_calls or not theirs.tool_calls or likeness.score_likeness(mine, theirs) == 1.0

    def _message(self, shown: int) -> Message:
        """A shown message with its text as rows have it: without lone surrogates."""
        message = self._events[shown].message
        content = storable_text(message.content)
        return message if content == message.content else replace(message, content=content)

    def _load(self, row: int) -> Message:
        if row not in self._loaded:
            self._loaded[row] = self._archive.messages.get(self._rows[row].id).message
        return self._loaded[row]

    def _may_have_id(self, shown: int, row: int, *, is_equal: bool) -> bool:
        """Whether a row with another id may be this event: its own id is gone because the host rewrote everything.

        Otherwise a new id is a new event, a genuine repeat; and a known one is its row.
        """
        mine, theirs = self._rows[row].entry_id, self._events[shown].entry_id
        known = self._stored.known(self._events[shown])
        if known is not None:
            return known.id == self._rows[row].id
        if (
            mine is None
            or theirs is None
            or mine.startswith(GENERATED_ID_PREFIX)
            or theirs.startswith(GENERATED_ID_PREFIX)
        ):
            return True
        if mine in self._in_use:
            return False
        key = self._events[shown].message.event_key  # the matcher checks the position
        return self._is_written_anew if is_equal else key is not None and self._load(row).event_key == key

    @cached_property
    def _is_written_anew(self) -> bool:
        """Whether everything last shown under ids that are gone is there with the same text, and not just one text."""
        last = self._stored.last
        if last is None:
            return False
        before = Counter(row.fingerprint for row in self._rows if row.id in last and row.entry_id not in self._in_use)
        known = self._stored.by_entry or {}
        now = Counter(event.fingerprint for event in self._events if event.entry_id not in known)
        return len(before) > 1 and before <= now


def in_context_order(rows: Sequence[TailRow], ordinals: Mapping[int, int]) -> list[TailRow]:
    """Rows as the host shows them: an inserted message is in the context where the host has put it.

    `ordinals` are the positions of those rows that are in the context; the others stay where they were stored.
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


def _older_start(archive: Archive, conversation_id: int, events: Sequence[Event]) -> int | None:
    """The seq from which on rows are read when a window may be an old one: the position of its rarest text."""
    best: tuple[int, int] | None = None
    for n, event in enumerate(events[:_PROBES]):
        seqs = archive.messages.seqs_of_identity(conversation_id, event.identity, _RARE)
        if seqs and (best is None or len(seqs) < best[0]):
            best = (len(seqs), max(1, seqs[-1] - n - _TAIL_MARGIN))
        if best is not None and best[0] == 1:
            break
    return None if best is None else best[1]


#: Marshal version 2 has no references, so equal messages give equal bytes; other bytes only cost a slower comparison.
_MARSHAL = 2
_PRINT = 8
#: How many prints are cached, and for messages of up to how many characters. A longer window than that gains nothing.
_REMEMBERED, _SHORT = 8_192, 4_096
#: The fields of a message of one text.
_PLAIN = ("role", "content")


def window_prints(window: Sequence[MessageLike]) -> bytes:
    """Eight bytes for each message of a window, in order: equal for equal messages."""
    prints: list[bytes] = []
    for item in window:  # each message of each window passes here: no calls but the needed ones
        if type(item) is dict and tuple(item) == _PLAIN:
            role, content = item["role"], item["content"]
            if type(content) is str and len(content) < _SHORT and type(role) is str:
                prints.append(_print_of_text(role, content))
                continue
        prints.append(blake2b(_bytes(item), digest_size=_PRINT).digest())
    return b"".join(prints)


@lru_cache(maxsize=_REMEMBERED)
def _print_of_text(role: str, content: str) -> bytes:
    """The print of a message of one text, cached: hosts send the same ones repeatedly."""
    return blake2b(marshal.dumps({"role": role, "content": content}, _MARSHAL), digest_size=_PRINT).digest()


def _bytes(item: MessageLike) -> bytes:
    if isinstance(item, Incoming):
        return _bytes(item.message) + repr(item.entry_id).encode()
    if isinstance(item, Message) and item.body is None and item.parts:
        return repr(item).encode("utf-8", "surrogatepass")
    original = item.original if isinstance(item, Message) else item
    try:
        return marshal.dumps(cast("dict[str, Any]", original), _MARSHAL)
    except ValueError:  # a host's own mapping class
        return repr(original).encode("utf-8", "surrogatepass")


def split_prints(prints: bytes) -> list[bytes]:
    return [prints[n : n + _PRINT] for n in range(0, len(prints), _PRINT)]


def common_prefix(one: bytes, other: bytes) -> int:
    """The length of the common prefix of two windows."""
    size = min(len(one), len(other))
    if one[:size] == other[:size]:
        return size // _PRINT
    low, high = 0, size // _PRINT  # equal up to `low`, not up to `high`
    while high - low > 1:
        middle = (low + high) // 2
        if one[_PRINT * low : _PRINT * middle] == other[_PRINT * low : _PRINT * middle]:
            low = middle
        else:
            high = middle
    return low


def moved_overlap(now: bytes, before: bytes, is_short: Callable[[int], bool]) -> tuple[int, int]:
    """How many messages of a window are the end of the previous one, and how many of these may be repeats; 0 if none.

    It has not moved on when it begins like the previous one, or when what follows was in that, too.
    """
    size, open_ = overlap(split_prints(now), split_prints(before), is_short)
    if not size or size < common_prefix(now, before):
        return 0, 0
    shown, last = split_prints(now), split_prints(before)
    rest = shown[size:]
    if size == 1 and last.count(shown[0]) > 1:  # a repeated text: what follows may be edited
        return 0, 0
    if any(last.count(one) == 1 and shown.count(one) == 1 for one in rest if one in last):
        return 0, 0
    return size, open_


def is_cut_short(now: bytes, before: bytes) -> bool:
    """Whether a window begins like the last one and does not continue it: something may have been removed."""
    return not now.startswith(before) and now[:_PRINT] == before[:_PRINT]


def possible_repeats(prints: bytes, is_short: Callable[[int], bool]) -> int:
    """How many messages may be repeats when the same window comes again: it looks the same after it has moved on."""
    shown = split_prints(prints)
    size, _ = overlap(shown, shown[1:]) if len(shown) > 1 else (0, 0)
    counts = Counter(shown)
    may_repeat = (counts[shown[n]] > 1 or is_short(n) for n in range(size, len(shown)))
    return len(shown) - size if size and all(may_repeat) else 0


def hide_unshown(
    archive: Archive, conversation: Conversation, window: IncomingWindow, plan: IngestPlan, now: datetime
) -> IngestPlan:
    """The plan with every message that this window omits.

    Messages older than the window stay when it has clearly moved on: a host may drop its oldest messages. Everything
    stays when it is a new beginning, with nothing known and no reply, or has text of ours, which covers more.
    """
    known = {id_ for id_ in plan.places if id_ is not None}
    is_new = not known and not any(event.message.role == "assistant" for event in window.events)
    if window.has_ours or is_new or not plan.places:
        return plan
    there = known | set(plan.revived) | set(plan.abandoned) | {id_ for id_, _ in plan.hidden}
    rows = archive.messages.run_from(conversation.id, 1)
    rows = in_context_order(rows, archive.context.ordinals(conversation.id, len(rows)))
    older = _count_older(rows, window, plan)
    gone = [row.id for row in rows[older:] if row.id not in there]
    abandoned = (*plan.abandoned, *gone)
    _uncover(archive, conversation.id, set(abandoned), now)
    return replace(plan, abandoned=abandoned, cause=plan.cause or ("branch" if gone else None))


def _count_older(rows: Sequence[TailRow], window: IncomingWindow, plan: IngestPlan) -> int:
    """How many rows are older than a window that has moved on; 0 when it may begin where they do.

    It has moved on when its first message is a row in the middle, and all or much of what follows is in it.
    """
    first = window.events[0]
    place = next((n for n, row in enumerate(rows) if row.id == plan.places[0]), 0)
    if not place or rows[0].fingerprint == first.fingerprint:  # the first messages, edited; or the first
        return 0
    known = {id_ for id_ in plan.places if id_ is not None}
    is_all = known.issuperset(row.id for row in rows[place:])
    return place if len(known) >= SURE or is_all else 0


def _uncover(archive: Archive, conversation_id: int, gone: Collection[int], now: datetime) -> None:
    """Expand each summary in the context that covers these messages: its other sources are in the context again."""
    operations = SurgeryWrites(archive)
    while (found := archive.context.above(conversation_id, gone)) is not None:
        ordinal, summary_id = found
        before = archive.context.tokens(conversation_id)
        in_context = {item_id(item) for item in archive.context.items(conversation_id)}
        sources = archive.summaries.get(summary_id).source_ids or archive.summaries.message_ids(summary_id)
        free = [one for one in sources if one not in gone and one not in in_context]
        items = operations.visible(conversation_id, free)
        archive.context.replace_run(conversation_id, ordinal, ordinal, items, now)
        after = archive.context.tokens(conversation_id)
        change = ContextChange("dissolve", "sync", "branch", (summary_id,), tuple(items), ordinal, before, after)
        archive.context.log(conversation_id, change, now)
