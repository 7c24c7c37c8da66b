"""Entries that say something else under an id that is stored: no word of them is lost.

One that was read while its host still wrote it says more now. The whole message takes the place of the part in the
context, and so does one that its host has edited; what was stored stays stored, under an id of its own, and returns
when the edit is undone. An id that a host has given to several messages is that of the first one; the others get ids
of their own. A message that is only presented in another way is no other one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lossless.ingest import entries as ingest
from lossless.ingest.plan import IngestPlan, Inserted
from lossless.ingest.same import goes_on, is_retold, is_unmasked
from lossless.lifecycle.stream import chunks, messages_of, said
from lossless.model.context import MessageItem
from lossless.model.messages import Incoming

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from lossless.ingest.events import Event
    from lossless.ingest.payloads import Payloads
    from lossless.model.conversations import Conversation
    from lossless.model.messages import Message
    from lossless.store.archive import Archive
    from lossless.store.messages import TailRow
    from lossless.transcripts.entries import BadLine, Entry

#: So many messages behind a part show where the whole one belongs.
_BEHIND = 64


@dataclass(frozen=True, slots=True)
class Reread:
    """Entries that were read, and the conversation that holds them."""

    archive: Archive
    conversation: Conversation
    entries: Callable[[], Iterable[Entry | BadLine]]
    #: Whether those are all that the file says, and it is the file that was followed before.
    is_whole: bool
    is_followed: bool
    now: datetime
    payloads: Payloads | None


@dataclass(slots=True)
class _Taken:
    """What was stored so far: how many messages, and the rows of those that share an id with another one."""

    count: int = 0
    beside: set[int] = field(default_factory=set)
    repeated: frozenset[str] | None = None
    is_its_file: bool | None = None


def take_grown(reread: Reread) -> int:
    """Store entries whose id is known, and whose words have grown or are others; returns how many those were."""
    taken = _Taken()
    for chunk in chunks(reread.entries()):
        items = [
            Incoming(entry.message, entry.id, entry.created_at)
            for entry in said(chunk)
            if entry.id is not None and entry.message is not None
        ]
        known = reread.archive.messages.known_entries(reread.conversation.id, [item.entry_id or "" for item in items])
        for event in ingest.read([item for item in items if item.entry_id in known]).events:
            row = known[event.entry_id or ""]
            if not row.claimed and row.fingerprint != event.fingerprint:
                known[event.entry_id or ""] = _compare(reread, taken, row, event) or row
    return taken.count


def _compare(reread: Reread, taken: _Taken, row: TailRow, event: Event) -> TailRow | None:
    """Store an event that says more than the row with its id, or something else; the row that has the id then."""
    before = reread.archive.messages.get(row.id).message
    if _has_grown(before, event.message):
        return _take(reread, taken, row, event)
    if is_retold(before, event.message) or is_unmasked(before, event.message):
        return None
    name = _name(event.entry_id, event.fingerprint)
    earlier = reread.archive.messages.known_entries(reread.conversation.id, [name]).get(name)
    if reread.is_whole and _is_its_file(reread, taken) and event.entry_id not in _repeated(reread, taken):
        return _take(reread, taken, row, event) if earlier is None else _take_back(reread, taken, row, event, earlier)
    if earlier is None:
        _add(reread, taken, row, replace(event, entry_id=name))
    return None


def _has_grown(before: Message, now: Message) -> bool:
    """Whether a message says all that another one says, and more; a mask or a frame is no more."""
    if goes_on(before, now):
        return True
    if before.role != now.role or not now.content.startswith(before.content.rstrip()):
        return False
    if not is_retold(before, now) or len(now.tool_calls) > len(before.tool_calls):
        return True
    calls = zip(before.tool_calls, now.tool_calls, strict=False)
    return any(part.id == whole.id and whole.input and not part.input for part, whole in calls)


def _name(entry_id: str | None, fingerprint: bytes) -> str:
    """The id of a message that cannot have its host's: another one has it."""
    return f"{entry_id}~{fingerprint.hex()[:16]}"


def _repeated(reread: Reread, taken: _Taken) -> frozenset[str]:
    """The ids that several messages have."""
    if taken.repeated is None:
        seen: set[str] = set()
        again: set[str] = set()
        for entry in said(reread.entries()):
            if entry.id is not None:
                (again if entry.id in seen else seen).add(entry.id)
        taken.repeated = frozenset(again)
    return taken.repeated


def _is_its_file(reread: Reread, taken: _Taken) -> bool:
    """Whether a file is the one that was followed, or says for the most part what is stored under its ids."""
    if taken.is_its_file is None:
        taken.is_its_file = reread.is_followed or _agrees(reread)
    return taken.is_its_file


def _agrees(reread: Reread) -> bool:
    same = other = 0
    for chunk in chunks(reread.entries()):
        events = ingest.read([item for item in messages_of(chunk) if item.entry_id is not None]).events
        ids = [event.entry_id or "" for event in events]
        known = reread.archive.messages.known_entries(reread.conversation.id, ids)
        agreeing = [
            known[id_].fingerprint == event.fingerprint for id_, event in zip(ids, events, strict=True) if id_ in known
        ]
        same, other = same + sum(agreeing), other + len(agreeing) - sum(agreeing)
    return same > other


def _take(reread: Reread, taken: _Taken, part: TailRow, whole: Event) -> TailRow | None:
    """Let a message take the place and the id of a row."""
    name = _name(whole.entry_id, part.fingerprint)
    _carry_out(reread, taken, part, whole, IngestPlan(stamps=((part.id, name),), abandoned=(part.id,), cause="branch"))
    id_ = whole.entry_id or ""
    return reread.archive.messages.known_entries(reread.conversation.id, [id_]).get(id_)


def _take_back(reread: Reread, taken: _Taken, edit: TailRow, event: Event, earlier: TailRow) -> TailRow | None:
    """Let a stored message have its place and its id again: its host has undone an edit."""
    archive, conversation, id_ = reread.archive, reread.conversation, event.entry_id or ""
    stamps = ((edit.id, _name(id_, edit.fingerprint)), (earlier.id, id_))
    plan = IngestPlan(stamps=stamps, abandoned=(edit.id,), revived=(earlier.id,), cause="branch")
    with archive.writing():
        behind = _behind(reread, taken, edit)
        batch = ingest.Batch((), (), (), 0)
        ingest.carry_out(archive, conversation, plan, batch, now=reread.now, payloads=reread.payloads)
        if earlier.id in _shown(reread):
            archive.context.insert_before(conversation.id, [earlier.id], behind, reread.now)
    return archive.messages.known_entries(conversation.id, [id_]).get(id_)


def _shown(reread: Reread) -> list[int]:
    """The messages of the context, in order."""
    items = reread.archive.context.items(reread.conversation.id)
    return [item.message_id for item in items if isinstance(item, MessageItem)]


def _behind(reread: Reread, taken: _Taken, row: TailRow) -> tuple[int, ...]:
    """The messages that follow a row: in the context, or as they came when the row is not in it."""
    shown = _shown(reread)
    if row.id in shown:
        ids = shown[shown.index(row.id) + 1 :]
    else:
        ids = [other.id for other in reread.archive.messages.run_from(reread.conversation.id, row.seq + 1)]
    return tuple(id_ for id_ in ids[: _BEHIND + len(taken.beside)] if id_ not in taken.beside)


def _add(reread: Reread, taken: _Taken, row: TailRow, other: Event) -> None:
    """Store a message that shares its id with a row: behind that one, or at the end when it is of another file."""
    taken.beside.update(_carry_out(reread, taken, row if _is_its_file(reread, taken) else None, other, IngestPlan()))


def _carry_out(reread: Reread, taken: _Taken, after: TailRow | None, event: Event, plan: IngestPlan) -> tuple[int, ...]:
    archive, conversation = reread.archive, reread.conversation
    with archive.writing():
        if after is not None:
            plan = replace(plan, insertions=(Inserted((event.index,), _behind(reread, taken, after)),))
        batch = ingest.Batch((event,), (), (), 1)
        plan = replace(plan, new=(event,))
        report = ingest.carry_out(archive, conversation, plan, batch, now=reread.now, payloads=reread.payloads)
    taken.count += 1
    return tuple(report.message_ids)
