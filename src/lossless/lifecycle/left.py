"""What a transcript has left: entries that are in the file and not on its path leave the context, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless.lifecycle.stream import said
from lossless.model.context import MessageItem
from lossless.model.messages import MADE_UP
from lossless.store.context import Change

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from lossless.store.archive import Archive
    from lossless.transcripts.entries import BadLine, Entry


def left_in(path: Iterable[Entry | BadLine], everything: Iterable[Entry | BadLine]) -> frozenset[str]:
    """The ids of what was said on branches that the host has left."""
    there = {entry.id for entry in said(path)}
    return frozenset(entry.id for entry in said(everything) if entry.id is not None and entry.id not in there)


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
        if gone:
            before = archive.context.tokens(conversation_id)
            archive.context.hide(conversation_id, gone, "branch", now)
            after = archive.context.tokens(conversation_id)
            change = Change("branch", "bootstrap", "branch", gone, (), None, before, after)
            archive.context.log(conversation_id, change, now)
            archive.context.close_gaps(conversation_id)
    return len(gone)
