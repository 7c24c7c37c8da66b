"""What a transcript has left: entries that are in the file and not on its path are kept out of the context."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lossless.ingest import entries as ingest
from lossless.ingest.plan import IngestPlan
from lossless.ingest.window import entry_ids_of
from lossless.lifecycle.stream import chunks, messages_of, of_lane, said
from lossless.model.context import MessageItem
from lossless.model.messages import MADE_UP
from lossless.store.context import Change

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from lossless.lifecycle.readings import Reading
    from lossless.store.archive import Archive
    from lossless.transcripts.entries import BadLine, Entry


#: Kinds of transcripts that hold all branches, those that were left too.
_WRITE_BRANCHES = frozenset(("claude-code",))


def left_in(path: Iterable[Entry | BadLine], everything: Iterable[Entry | BadLine]) -> frozenset[str]:
    """The ids of what was said on branches that the host has left."""
    there = {entry.id for entry in said(path)}
    return frozenset(entry.id for entry in said(everything) if entry.id is not None and entry.id not in there)


def store_left(work: Reading, left: frozenset[str] | None = None) -> None:
    """Store what was said on branches that the host has left before anybody read them, hidden as a branch.

    Only of hosts that write down all their branches themselves. `left` are their ids, where these are known.
    """
    transcript, lane = work.transcript, work.lane
    if transcript.kind not in _WRITE_BRANCHES or not transcript.is_branched(lane):
        return
    if left is None:
        left = left_in(transcript.path(lane), of_lane(transcript.appended(), lane))
    archive, conversation = work.archive, work.conversation
    gone = (entry for entry in said(of_lane(transcript.appended(), lane)) if entry.id in left)
    for chunk in chunks(gone, work.chunk):
        with archive.writing():
            batch = ingest.read(archive, work.id, messages_of(chunk))
            plan = _plan_left(archive, work.id, batch)
            if not plan.new and not plan.stamps:
                continue
            report = ingest.carry_out(archive, conversation, plan, batch, now=work.now, payloads=work.payloads)
            _hide(archive, work.id, report.message_ids, work.now)
        stored = len(report.message_ids)
        work.report = replace(work.report, stored=work.report.stored + stored, abandoned=work.report.abandoned + stored)


def _plan_left(archive: Archive, conversation_id: int, batch: ingest.Batch) -> IngestPlan:
    """What of a branch is not stored; a row that has left the context without an id of the host's is its copy."""
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


def return_to_path(archive: Archive, conversation_id: int, path: Iterable[Entry | BadLine], now: datetime) -> int:
    """Bring a branch back that the host has returned to, without a word; returns how many messages left for it.

    It parts from what is shown; a path that has nothing in common with that is another file, which changes nothing.
    """
    hidden = {row.entry_id for row in archive.messages.abandoned_from(conversation_id, 1)} - {None}
    ids = [entry.id for entry in said(path) if entry.id is not None] if hidden else []
    first = next((n for n, id_ in enumerate(ids) if id_ in hidden), 0)
    if not first:
        return 0
    with archive.writing():
        there = archive.messages.known_entries(conversation_id, ids)
        back = tuple(there[id_].id for id_ in ids[first:] if id_ in there)
        before = archive.context.tokens(conversation_id)
        archive.context.reveal(conversation_id, back, now)
        archive.summaries.mark_stale(back, now)
        start = max((there[id_].seq for id_ in ids[:first] if id_ in there), default=0)
        on_path = {row.id for row in there.values()}
        others = archive.messages.run_from(conversation_id, start + 1)
        left = {row.id for row in others if _is_hosts(row.entry_id) and row.id not in on_path}
        items = archive.context.items(conversation_id)
        gone = tuple(item.message_id for item in items if isinstance(item, MessageItem) and item.message_id in left)
        if gone:
            archive.context.hide(conversation_id, gone, "branch", now)
        after = archive.context.tokens(conversation_id)
        change = Change("branch", "bootstrap", "branch", gone, back, None, before, after)
        archive.context.log(conversation_id, change, now)
        archive.context.close_gaps(conversation_id)
    return len(gone)


def _is_hosts(entry_id: str | None) -> bool:
    return entry_id is not None and not entry_id.startswith(MADE_UP)


def hide_left(archive: Archive, conversation_id: int, left: frozenset[str], now: datetime) -> int:
    """Hide the messages of branches that the host has left, whoever brought them; returns how many those were."""
    if not left:
        return 0
    with archive.writing():
        rows = {row.id for row in archive.messages.known_entries(conversation_id, list(left)).values()}
        items = archive.context.items(conversation_id)
        gone = tuple(item.message_id for item in items if isinstance(item, MessageItem) and item.message_id in rows)
        _hide(archive, conversation_id, gone, now)
    return len(gone)


def _hide(archive: Archive, conversation_id: int, gone: tuple[int, ...], now: datetime) -> None:
    if gone:
        before = archive.context.tokens(conversation_id)
        archive.context.hide(conversation_id, gone, "branch", now)
        after = archive.context.tokens(conversation_id)
        change = Change("branch", "bootstrap", "branch", gone, (), None, before, after)
        archive.context.log(conversation_id, change, now)
        archive.context.close_gaps(conversation_id)
