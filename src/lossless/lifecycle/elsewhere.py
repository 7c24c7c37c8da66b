"""What of a transcript is not this conversation's to store: it is held by one that was closed, deleted or forked from.

Only what another conversation provably holds is left out; everything else is stored.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from lossless.ingest import entries as ingest
from lossless.ingest.likeness import is_reduction
from lossless.ingest.plan import IngestPlan
from lossless.ingest.run import write
from lossless.lifecycle.retelling import Heard, retold
from lossless.lifecycle.stream import id_of, messages_of, said, tokens_of
from lossless.store.histories import PRINT, id_mark
from lossless.transcripts.entries import BadLine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from lossless.ingest.payloads import Payloads
    from lossless.model.conversations import Conversation
    from lossless.store.archive import Archive
    from lossless.store.histories import History
    from lossless.transcripts.entries import Entry

#: How many entries are looked up at once.
_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Whose:
    """A transcript, and the conversation that reads it."""

    archive: Archive
    conversation: Conversation
    #: Its path, empty for one that is no file, and the ids in its header: its own, and the one it was forked from.
    path: str
    header_id: str | None
    parent: str | None
    #: How old a file without ids is.
    age: int = 0
    #: What was deleted for good may come back.
    again: bool = False


@dataclass(slots=True)
class Apart:
    """Messages of a path that are left out, by their places: a byte for each, 1 for one that is."""

    flags: bytearray = field(default_factory=bytearray)
    #: Rows of closed conversations that are known under new ids now.
    stamps: list[tuple[int, str]] = field(default_factory=list)
    #: Places of messages that rows of closed conversations have in other words, each with its row.
    reworded: dict[int, int] = field(default_factory=dict)
    #: The conversations on which a fork relies.
    sources: set[int] = field(default_factory=set)
    #: How many of them were deleted for good.
    pruned: int = 0

    @property
    def is_last(self) -> bool:
        """Whether the path ends with what others hold: what is added to it may be theirs, too."""
        return bool(self.flags and self.flags[-1])

    def rest(self, entries: Iterable[Entry | BadLine]) -> Iterator[Entry | BadLine]:
        """The entries but for those left out, from the first message on that is not."""
        first = self.flags.find(b"\0")
        place = -1
        for entry in entries:
            is_message = not isinstance(entry, BadLine) and entry.message is not None
            place += is_message
            if 0 <= first <= place and not (is_message and place < len(self.flags) and self.flags[place]):
                yield entry


@dataclass(slots=True)
class _Path:
    """The messages of a path, as they are compared."""

    heard: list[Heard] = field(default_factory=list)
    ids: list[str | None] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)


def apart(whose: Whose, path: Callable[[], Iterable[Entry | BadLine]], fork_tokens: int | None) -> Apart | None:
    """What of a path other conversations hold; None where there are none.

    Of what a fork shares with its parent the newest `fork_tokens` are kept; None says that the rest was left out.
    """
    archive, mine = whose.archive, whose.conversation.id
    formers = archive.histories.former(whose.conversation)
    pruned = _pruned(whose)
    parents = _parents(whose, formers)
    if not formers and not pruned and not parents:
        return None
    messages = _read(whose, path())
    found = Apart(bytearray(len(messages.heard)))
    own = _own(archive, mine, messages.ids)
    if formers or pruned:
        _leave_told(found, messages, own, _histories(whose, messages, own, formers, pruned))
    if parents:
        shared = _shared(whose, messages, parents, path)
        _leave_shared(found, messages, own, shared, fork_tokens)
    return found


def keep_words(
    archive: Archive,
    entries: Iterable[Entry | BadLine],
    rows: Mapping[int, int],
    now: datetime,
    payloads: Payloads | None,
) -> None:
    """Keep the words of entries, by their places, that rows of closed conversations have otherwise; the rows stay."""
    for n, entry in enumerate(said(entries)):
        if n not in rows:
            continue
        row = archive.messages.get(rows[n])
        events = ingest.read(archive, row.conversation_id, messages_of([entry])).events
        if not events:
            continue
        event = replace(events[0], entry_id=None)
        if row.message.role == event.message.role:
            plan = IngestPlan(versions=((row.id, event),), is_running=False)
            with archive.writing():
                write(archive, archive.conversations.get(row.conversation_id), plan, payloads, now)


def all_pruned(whose: Whose, path: Callable[[], Iterable[Entry | BadLine]]) -> int:
    """How many messages of a path were deleted for good, if nothing is left of it; else 0."""
    found = apart(whose, path, None) if _pruned(whose) else None
    return 0 if found is None or 0 in found.flags else found.pruned


def _pruned(whose: Whose) -> list[History]:
    if whose.again:
        return []
    return whose.archive.histories.pruned(whose.conversation.session_key, whose.path, whose.header_id)


def _parents(whose: Whose, formers: Sequence[int]) -> list[int]:
    if whose.parent is None:
        return []
    ids = whose.archive.histories.following(whose.parent)
    return [id_ for id_ in ids if id_ != whose.conversation.id and id_ not in formers]


def _read(whose: Whose, entries: Iterable[Entry | BadLine]) -> _Path:
    """The messages of a path; what is no message of an archive has an empty print."""
    found, stream = _Path(), said(entries)
    while chunk := list(islice(stream, _AT_ONCE)):
        batch = ingest.read(whose.archive, whose.conversation.id, messages_of(chunk, whose.age))
        events = {event.index: event for event in batch.events}
        for place, entry in enumerate(chunk):
            event, id_ = events.get(place), id_of(entry, whose.age)
            at = 0 if event is None or event.created_at is None else max(0, int(event.created_at.timestamp()))
            print_ = b"" if event is None else event.fingerprint[:PRINT]
            role = "" if event is None else event.message.role
            found.heard.append(Heard(print_, id_mark(id_), at, role))
            found.ids.append(id_)
            found.tokens.append(tokens_of(entry))
    return found


def _own(archive: Archive, conversation_id: int, ids: Sequence[str | None]) -> set[int]:
    """Places of what the conversation itself holds."""
    found: set[int] = set()
    for start in range(0, len(ids), _AT_ONCE):
        chunk = ids[start : start + _AT_ONCE]
        stored = archive.messages.known_entries(conversation_id, [id_ for id_ in chunk if id_ is not None])
        found.update(start + n for n, id_ in enumerate(chunk) if id_ in stored)
    return found


def _histories(
    whose: Whose, messages: _Path, own: set[int], formers: Sequence[int], pruned: Sequence[History]
) -> list[History]:
    """What was closed and what was deleted, oldest first, and then the conversation itself.

    Nothing is read of it where all of the path is its own.
    """
    if len(own) == len(messages.heard):
        return []
    closed, mine = [whose.archive.histories.history(id_, whose.path) for id_ in formers], whose.conversation.id
    others = sorted([*closed, *pruned], key=lambda history: history.number)
    return [*others, whose.archive.histories.history(mine, whose.path)]


def _leave_told(found: Apart, messages: _Path, own: set[int], histories: Sequence[History]) -> None:
    """Leave out what was told before, history by history as they followed each other."""
    end = min(own, default=len(messages.heard))
    first = 0
    for history, later in pairwise(histories):
        next_ = next((one.print for one in later.told if one.print), b"")
        found_here = retold(messages.heard, history, first, end, next_)
        pairs = {n: at for n, at in found_here.items() if n not in own}
        in_use = {one.id for one in history.told if one.id}
        for n, at in pairs.items():
            row, id_, mark = history.told[at].row, messages.ids[n], messages.heard[n].id
            found.pruned += not row and not found.flags[n]
            found.flags[n] = 1
            if row and messages.heard[n].print and history.told[at].print != messages.heard[n].print:
                found.reworded[n] = row
            if row and id_ is not None and mark and mark not in in_use:
                found.stamps.append((row, id_))
        first = max(first, 1 + max(pairs, default=-1))
    last = found.flags.rfind(b"\1")
    for n in range(last):
        if not messages.heard[n].print:
            found.flags[n] = 1


def _leave_shared(
    found: Apart, messages: _Path, own: set[int], shared: Mapping[int, int], fork_tokens: int | None
) -> None:
    """Leave out what a fork shares with its parent, but for the newest part; what the fork itself said stays."""
    tokens = 0
    for n in range(len(messages.heard) - 1, -1, -1):
        tokens += messages.tokens[n]
        is_old = fork_tokens is None or tokens > fork_tokens
        if is_old and n in shared and n not in own and n < len(messages.heard) - 1:
            found.flags[n] = 1
            found.sources.add(shared[n])


def _shared(
    whose: Whose, messages: _Path, parents: Sequence[int], path: Callable[[], Iterable[Entry | BadLine]]
) -> dict[int, int]:
    """Places of what a parent provably holds, with that conversation: the same id and words, or words and second."""
    shared: dict[int, int] = {}
    other: dict[int, tuple[int, int]] = {}
    for start in range(0, len(messages.ids), _AT_ONCE):
        chunk = range(start, min(start + _AT_ONCE, len(messages.ids)))
        places = {id_: n for n in chunk if (id_ := messages.ids[n]) is not None and messages.heard[n].id}
        for id_, owner, print_, row in whose.archive.histories.known(parents, list(places)):
            n = places[id_]
            if messages.heard[n].print == print_:
                shared[n] = owner
            else:
                other[n] = (row, owner)
    other = {n: found for n, found in other.items() if n not in shared}
    if other:
        copies = _copies(whose.archive, path(), {n: row for n, (row, _) in other.items()})
        shared.update((n, other[n][1]) for n in copies)
    return shared or _said_at_once(whose, messages, parents)


def _copies(archive: Archive, entries: Iterable[Entry | BadLine], rows: Mapping[int, int]) -> Iterator[int]:
    """Places of entries that are rewritten copies of rows with the same id, and bring no words of their own."""
    for n, entry in enumerate(said(entries)):
        if n in rows:
            stored = archive.messages.get(rows[n])
            events = ingest.read(archive, stored.conversation_id, messages_of([entry])).events
            if events and is_reduction(stored.message, events[0].message):
                yield n


def _said_at_once(whose: Whose, messages: _Path, parents: Sequence[int]) -> dict[int, int]:
    """Places of what a parent holds under other ids: the same words in the same second."""
    told = {
        (one.print, one.at): parent
        for parent in parents
        for one in whose.archive.histories.history(parent, whose.path).told
        if one.print and one.at and one.is_timed
    }
    names = [(heard.print, heard.at) for heard in messages.heard]
    return {n: told[name] for n, name in enumerate(names) if name in told}
