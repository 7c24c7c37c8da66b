"""What a transcript has left: entries that are in the file and not on its path leave the context, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless.lifecycle.stream import said
from lossless.model.context import MessageItem
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
    return len(gone)
