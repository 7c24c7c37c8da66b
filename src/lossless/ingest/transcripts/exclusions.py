"""Which entries of a transcript are not stored in this conversation: those that a closed, deleted or parent
conversation provably has, and those on branches that the host has abandoned.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

from lossless.ingest import transcript_entries as ingest
from lossless.ingest.events import entry_ids_of
from lossless.ingest.likeness import is_reduction
from lossless.ingest.plan import IngestPlan
from lossless.ingest.run import ConversationWriter
from lossless.ingest.transcripts import entries as lines
from lossless.model.context import MessageItem
from lossless.model.messages import GENERATED_ID_PREFIX
from lossless.model.records import ContextChange
from lossless.model.tokens import estimate_tokens
from lossless.store.conversations import PRINT_BYTES, ConversationHistory, MessageRef, entry_id_digest

if TYPE_CHECKING:
    from lossless.ingest.transcripts.entries import TranscriptLine
    from lossless.ingest.transcripts.following import TranscriptReading
    from lossless.ingest.window import IncomingWindow
    from lossless.store.archive import Archive

#: So many equal messages in a row are not a coincidence.
_SURE = 3
#: How many messages of the other conversation may be missing in a transcript before it continues.
_MISSING = 2
#: How many seconds may pass between a message and its arrival with the turn.
_NEAR = 3600
#: How many positions of a repeated text are checked.
_MAX_PLACES = 16


def match_history(
    path: Sequence[MessageRef], history: ConversationHistory, first: int, end: int, next_: bytes = b""
) -> dict[int, int]:
    """Positions of a path from `first` on that the history has, each with the position there.

    Texts are compared only before `end`, from where on the path is known to be another conversation's. `next_` is the
    print of the first message after the history, if known.
    """
    by_id = _match_by_id(path, history, first)
    by_words = _match_by_words(path, history, by_id, first, end)
    if not _is_believed(path, history, by_id, by_words, next_):
        return by_id
    pairs = by_id | by_words
    pairs |= _match_between(path, history, pairs, first)
    n, place = 1 + max(pairs, default=-1), 1 + max(pairs.values(), default=-1)
    is_last = history.is_same_file and place == len(history.messages) - 1 == len(pairs) and n < min(end, len(path))
    if is_last and _is_changed(path[n], history.messages[place]):  # reworded: all lines before it are known
        pairs[n] = place
    return pairs


def _match_between(
    path: Sequence[MessageRef], history: ConversationHistory, pairs: Mapping[int, int], first: int
) -> dict[int, int]:
    """Reworded messages between known ones where the history has one of the same second.

    In the same file without ids the position suffices, with equally many lines on both sides.
    """
    found: dict[int, int] = {}
    before, at = first - 1, -1
    for n, place in sorted(pairs.items()):
        is_even = n - before == place - at
        if is_even or at < 0:
            for back in range(1, min(n - before, place - at)):
                here, one = path[n - back], history.messages[place - back]
                is_its = bool(here.at) and here.at == one.at and one.is_timed
                if is_its or (is_even and history.is_same_file and _is_changed(here, one)):
                    found[n - back] = place - back
        before, at = n, place
    return found


def _is_changed(here: MessageRef, one: MessageRef) -> bool:
    """Whether a line may be a reworded row, apart from its position: neither has an id, and the roles agree."""
    is_timed = bool(here.at) and bool(one.at) and one.is_timed
    return bool(one.row and here.role) and here.role == one.role and not (here.id or one.id or is_timed)


def _match_by_id(path: Sequence[MessageRef], history: ConversationHistory, first: int) -> dict[int, int]:
    """Ids of the same file decide; those of another one only with the same text, as hosts may renumber in each."""
    places = {one.id: place for place, one in enumerate(history.messages) if one.id}
    found = {n: places[path[n].id] for n in range(first, len(path)) if path[n].id in places}
    same = {n: place for n, place in found.items() if path[n].print == history.messages[place].print}
    return found if history.is_same_file and 2 * len(same) >= len(found) else same


def _match_by_words(
    path: Sequence[MessageRef], history: ConversationHistory, by_id: Mapping[int, int], first: int, end: int
) -> dict[int, int]:
    """Matches texts in order: each with the next equal one, or where a certain run of others follows it."""
    stored = history.messages
    live, taken = {message.id for message in path if message.id}, set(by_id.values())
    places: defaultdict[bytes, list[int]] = defaultdict(list)
    for place, one in enumerate(stored):
        if one.print and one.id not in live and place not in taken:
            places[one.print].append(place)

    def may_be(n: int, place: int) -> bool:
        """Whether the times do not contradict."""
        here, one = path[n].at, stored[place]
        if here and one.is_timed and one.at:
            return here == one.at
        return not here or not history.ended or here <= history.ended

    def run(n: int, place: int) -> int:
        both = zip(range(n, end), range(place, len(stored)), strict=False)
        same = takewhile(lambda two: path[two[0]].print == stored[two[1]].print and may_be(*two), both)
        return sum(1 for _ in same)

    found: dict[int, int] = {}
    after = 0
    for n in range(first, end):
        if n in by_id:
            after = by_id[n] + 1
            continue
        there = places.get(path[n].print, [])
        ahead = [place for place in there[bisect_left(there, after) :] if may_be(n, place)]
        if not ahead:
            continue
        is_begun, place = bool(found or by_id), ahead[0]
        if not is_begun or place - after > _MISSING:
            some = ahead if len(ahead) <= 2 * _MAX_PLACES else ahead[:_MAX_PLACES] + ahead[-_MAX_PLACES:]
            length, place = max((run(n, one), one) for one in some)
            if is_begun and length < _SURE:
                continue
        found[n] = place
        after = place + 1
    return found


def _is_believed(
    path: Sequence[MessageRef],
    history: ConversationHistory,
    by_id: Mapping[int, int],
    pairs: Mapping[int, int],
    next_: bytes,
) -> bool:
    """Whether equal texts are the same events.

    A time proves it, or an id next to them. Otherwise they must reach the end of the history, as a file that continues
    has all of it: one that only begins with the same text is another one. In the same file some lines may differ.
    """
    stored = history.messages
    if not pairs:
        return False
    if by_id or any(_is_of_its_time(path[n], stored[place]) for n, place in pairs.items()):
        return True
    seen = [place for place, one in enumerate(stored) if one.print]
    texts = {path[n].print for n in pairs}
    is_line_by_line = history.is_same_file and len({n - place for n, place in pairs.items()}) == 1
    if is_line_by_line and len(texts) > 1 and 2 * len(pairs) >= len(seen):
        return True
    if max(pairs.values()) != seen[-1]:
        return False
    if len(pairs) == len(seen):
        behind = 1 + max(pairs)
        goes_on = bool(next_) and behind < len(path) and path[behind].print == next_
        return goes_on or len(texts) > 1 or not any(stored[place].id for place in seen)
    return len(texts) > 1 and len(pairs) >= _SURE


def _is_of_its_time(here: MessageRef, one: MessageRef) -> bool:
    """Whether a time proves that both are one event: the same second, or close to the arrival without an id."""
    if not here.at or not one.at:
        return False
    return here.at == one.at or (not one.id and not one.is_timed and abs(here.at - one.at) <= _NEAR)


#: How many entries are looked up at once.
_AT_ONCE = 1000


@dataclass(slots=True)
class Exclusions:
    """Omitted messages of a path, by position: one byte each, 1 when omitted."""

    flags: bytearray = field(default_factory=bytearray)
    #: Rows of closed conversations that got new ids.
    stamps: list[tuple[int, str]] = field(default_factory=list)
    #: Positions of messages that closed conversations have with different text, each with its row.
    reworded: dict[int, int] = field(default_factory=dict)
    #: The conversations that a fork depends on.
    sources: set[int] = field(default_factory=set)
    #: How many of them were permanently deleted.
    pruned: int = 0

    @property
    def is_last(self) -> bool:
        """Whether the path ends with what others have: appended entries may be theirs, too."""
        return bool(self.flags and self.flags[-1])

    def rest(self, entries: Iterable[TranscriptLine]) -> Iterator[TranscriptLine]:
        """The entries that are not omitted, from the first such message on."""
        first = self.flags.find(b"\0")
        place = -1
        for entry in entries:
            is_message = entry.message is not None
            place += is_message
            if 0 <= first <= place and not (is_message and place < len(self.flags) and self.flags[place]):
                yield entry


def find_exclusions(work: TranscriptReading, fork_tokens: int | None) -> Exclusions | None:
    """What of a path other conversations have; None when there are none.

    Of what a fork shares with its parent the newest `fork_tokens` are stored; None means that the rest was omitted.
    """
    archive, mine = work.archive, work.id
    formers = archive.transcripts.former(work.conversation)
    pruned = _pruned(work)
    parents: list[int] = []
    if (fork_tokens is not None or work.is_bounded) and (parent := work.transcript.header.parent) is not None:
        parents = [id_ for id_ in archive.transcripts.following(parent) if id_ != mine and id_ not in formers]
    if not formers and not pruned and not parents:
        return None
    messages = _read_path(work)
    found = Exclusions(bytearray(len(messages)))
    own: set[int] = set()  # positions of what the conversation itself has
    for start in range(0, len(messages), _AT_ONCE):
        ids = [message.entry_id for message in messages[start : start + _AT_ONCE]]
        stored = archive.messages.known_entries(mine, [id_ for id_ in ids if id_ is not None])
        own.update(start + n for n, id_ in enumerate(ids) if id_ in stored)
    if (formers or pruned) and len(own) < len(messages):
        closed = [archive.transcripts.history(id_, work.point.path) for id_ in formers]
        others = sorted([*closed, *pruned], key=lambda history: history.number)
        _exclude_known(found, messages, own, [*others, archive.transcripts.history(mine, work.point.path)])
    if parents:
        _exclude_shared(found, messages, own, _shared(work, messages, parents), fork_tokens)
    return found


def keep_other_wordings(work: TranscriptReading, rows: Mapping[int, int]) -> None:
    """Store the different text of entries, by position, as versions of rows of closed conversations; the rows stay."""
    archive = work.archive
    for n, entry in enumerate(lines.message_entries(work.transcript.path(work.lane))):
        if n not in rows:
            continue
        row = archive.messages.get(rows[n])
        events = ingest.read_entries(archive, row.conversation_id, lines.incoming_messages([entry])).events
        if events and row.message.role == events[0].message.role:
            plan = IngestPlan(versions=((row.id, replace(events[0], entry_id=None)),), is_running=False)
            with archive.writing():
                conversation = archive.conversations.get(row.conversation_id)
                ConversationWriter(archive, conversation, work.now, work.payloads).write(plan)


def count_all_pruned(work: TranscriptReading) -> int:
    """How many messages of a path were permanently deleted, if nothing else is left of it; else 0."""
    found = find_exclusions(work, None) if _pruned(work) else None
    return 0 if found is None or 0 in found.flags else found.pruned


def _pruned(work: TranscriptReading) -> list[ConversationHistory]:
    if work.again:
        return []
    return work.archive.transcripts.pruned(work.conversation.session_key, work.point.path, work.transcript.header.id)


def _read_path(work: TranscriptReading) -> list[MessageRef]:
    """The messages of a path; records that are not messages have an empty print."""
    found: list[MessageRef] = []
    for chunk in lines.chunks(lines.message_entries(work.transcript.path(work.lane)), _AT_ONCE):
        batch = ingest.read_entries(work.archive, work.id, lines.incoming_messages(chunk, work.age))
        events = {event.index: event for event in batch.events}
        for place, entry in enumerate(lines.message_entries(chunk)):
            event, id_ = events.get(place), lines.entry_id_of(entry, work.age)
            at = 0 if event is None or event.created_at is None else max(0, int(event.created_at.timestamp()))
            print_ = b"" if event is None else event.fingerprint[:PRINT_BYTES]
            role = "" if event is None else event.message.role
            tokens = estimate_tokens(str(lines.message_body(entry).get("content", "")))
            found.append(MessageRef(print_, entry_id_digest(id_), at, role, id_, tokens))
    return found


def _exclude_known(
    found: Exclusions, messages: Sequence[MessageRef], own: set[int], histories: Sequence[ConversationHistory]
) -> None:
    """Omit what is known from the histories before the last, which is the conversation's own, in their order."""
    end = min(own, default=len(messages))
    first = 0
    for history, later in pairwise(histories):
        next_ = next((one.print for one in later.messages if one.print), b"")
        found_here = match_history(messages, history, first, end, next_)
        pairs = {n: at for n, at in found_here.items() if n not in own}
        in_use = {one.id for one in history.messages if one.id}
        for n, at in pairs.items():
            row, id_, mark = history.messages[at].row, messages[n].entry_id, messages[n].id
            found.pruned += not row and not found.flags[n]
            found.flags[n] = 1
            if row and messages[n].print and history.messages[at].print != messages[n].print:
                found.reworded[n] = row
            if row and id_ is not None and mark and mark not in in_use:
                found.stamps.append((row, id_))
        first = max(first, 1 + max(pairs, default=-1))
    last = found.flags.rfind(b"\1")
    for n in range(last):
        if not messages[n].print:
            found.flags[n] = 1


def _exclude_shared(
    found: Exclusions, messages: Sequence[MessageRef], own: set[int], shared: Mapping[int, int], fork_tokens: int | None
) -> None:
    """Omit what a fork shares with its parent, except the newest part; the fork's own messages stay."""
    tokens = 0
    for n in range(len(messages) - 1, -1, -1):
        tokens += messages[n].tokens
        is_old = fork_tokens is None or tokens > fork_tokens
        if is_old and n in shared and n not in own and n < len(messages) - 1:
            found.flags[n] = 1
            found.sources.add(shared[n])


def _shared(work: TranscriptReading, messages: Sequence[MessageRef], parents: Sequence[int]) -> dict[int, int]:
    """Positions of what a parent provably has, with that conversation: the same id and text, or text and second."""
    shared: dict[int, int] = {}
    other: dict[int, tuple[int, int]] = {}
    for start in range(0, len(messages), _AT_ONCE):
        chunk = range(start, min(start + _AT_ONCE, len(messages)))
        places = {id_: n for n in chunk if (id_ := messages[n].entry_id) is not None and messages[n].id}
        for id_, owner, print_, row in work.archive.transcripts.known(parents, list(places)):
            n = places[id_]
            if messages[n].print == print_:
                shared[n] = owner
            else:
                other[n] = (row, owner)
    other = {n: found for n, found in other.items() if n not in shared}
    for n, entry in enumerate(lines.message_entries(work.transcript.path(work.lane)) if other else ()):
        if n in other:  # a copy that was rewritten, without new text
            stored = work.archive.messages.get(other[n][0])
            events = ingest.read_entries(work.archive, stored.conversation_id, lines.incoming_messages([entry])).events
            if events and is_reduction(stored.message, events[0].message):
                shared[n] = other[n][1]
    if shared:
        return shared
    parent_of = {  # under other ids
        (one.print, one.at): parent
        for parent in parents
        for one in work.archive.transcripts.history(parent, work.point.path).messages
        if one.print and one.at and one.is_timed
    }
    names = [(message.print, message.at) for message in messages]
    return {n: parent_of[name] for n, name in enumerate(names) if name in parent_of}


#: Kinds of transcripts that contain all branches, including abandoned ones.
_WRITE_BRANCHES = frozenset(("claude-code", "gemini", "opencode"))


def abandoned_ids(path: Iterable[TranscriptLine], everything: Iterable[TranscriptLine]) -> frozenset[str]:
    """The ids on branches that the host has abandoned."""
    there = {entry.id for entry in lines.message_entries(path)}
    return frozenset(
        entry.id for entry in lines.message_entries(everything) if entry.id is not None and entry.id not in there
    )


def store_abandoned(work: TranscriptReading, ids: frozenset[str] | None = None) -> None:
    """Store messages of branches that the host abandoned before they were read, hidden as a branch.

    Only for hosts that write all their branches. `ids` are theirs, if known.
    """
    transcript, lane = work.transcript, work.lane
    if transcript.kind not in _WRITE_BRANCHES or not transcript.is_branched(lane):
        return
    if ids is None:
        ids = abandoned_ids(transcript.path(lane), lines.entries_of_lane(transcript.appended(), lane))
    archive, conversation = work.archive, work.conversation
    mine = lines.message_entries(lines.entries_of_lane(transcript.appended(), lane))
    gone = (entry for entry in mine if entry.id in ids)
    for chunk in lines.chunks(gone, work.chunk):
        with archive.writing():
            batch = ingest.read_entries(archive, work.id, lines.incoming_messages(chunk))
            plan = _plan_abandoned(archive, work.id, batch)
            if not plan.new and not plan.stamps:
                continue
            report = ingest.write_entries(archive, conversation, plan, batch, now=work.now, payloads=work.payloads)
            _hide_branch(work, report.message_ids)
        stored = len(report.message_ids)
        work.report = replace(work.report, stored=work.report.stored + stored, abandoned=work.report.abandoned + stored)


def _plan_abandoned(archive: Archive, conversation_id: int, batch: IncomingWindow) -> IngestPlan:
    """What of a branch is not stored; a row that has left the context without a host's id is its copy."""
    known = archive.messages.known_entries(conversation_id, entry_ids_of(batch.events))
    free: dict[bytes, list[int]] = {}
    for row in archive.messages.abandoned_from(conversation_id, 1):
        if row.entry_id is None:
            free.setdefault(row.fingerprint, []).append(row.id)
    new, stamps = [], []
    for event in batch.events:
        if event.entry_id is None or event.entry_id in known:
            continue
        if same := free.get(event.fingerprint):
            stamps.append((same.pop(0), event.entry_id))
        else:
            new.append(event)
    return IngestPlan(tuple(new), tuple(stamps), replayed=len(batch.events) - len(new), is_running=False)


def return_to_path(work: TranscriptReading) -> int:
    """Restore a branch that the host has returned to without a new message; returns how many messages left for it.

    It diverges from what is shown; a path without anything in common is another file, which changes nothing.
    """
    archive, id_, now = work.archive, work.id, work.now
    hidden = {row.entry_id for row in archive.messages.abandoned_from(id_, 1)} - {None}
    ids = [entry.id for entry in lines.message_entries(work.path()) if entry.id is not None] if hidden else []
    first = next((n for n, entry_id in enumerate(ids) if entry_id in hidden), 0)
    if not first:
        return 0
    with archive.writing():
        there = archive.messages.known_entries(id_, ids)
        back = tuple(there[entry_id].id for entry_id in ids[first:] if entry_id in there)
        before = archive.context.tokens(id_)
        archive.context.reveal(id_, back, now)
        archive.summaries.mark_stale(back, now)
        start = max((there[entry_id].seq for entry_id in ids[:first] if entry_id in there), default=0)
        others = archive.messages.run_from(id_, start + 1)
        has_host_id = {row.id for row in others if row.entry_id and not row.entry_id.startswith(GENERATED_ID_PREFIX)}
        gone = _in_context(work, has_host_id - {row.id for row in there.values()})
        _log_branch(work, gone, back, before)
    return len(gone)


def hide_abandoned(work: TranscriptReading, ids: frozenset[str]) -> int:
    """Hide the messages of branches that the host has abandoned, from any producer; returns how many."""
    if not ids:
        return 0
    with work.archive.writing():
        rows = {row.id for row in work.archive.messages.known_entries(work.id, list(ids)).values()}
        gone = _in_context(work, rows)
        _hide_branch(work, gone)
    return len(gone)


def _in_context(work: TranscriptReading, rows: set[int]) -> tuple[int, ...]:
    items = work.archive.context.items(work.id)
    return tuple(item.message_id for item in items if isinstance(item, MessageItem) and item.message_id in rows)


def _hide_branch(work: TranscriptReading, gone: tuple[int, ...]) -> None:
    if gone:
        _log_branch(work, gone, (), work.archive.context.tokens(work.id))


def _log_branch(work: TranscriptReading, gone: tuple[int, ...], back: tuple[int, ...], before: int) -> None:
    """Hide messages, and log that they left, and that others came back."""
    context, id_ = work.archive.context, work.id
    if gone:
        context.hide(id_, gone, "branch", work.now)
    change = ContextChange("branch", "bootstrap", "branch", gone, back, None, before, context.tokens(id_))
    context.log(id_, change, work.now)
    context.close_gaps(id_)
