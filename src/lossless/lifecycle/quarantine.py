"""What had nothing in common with its session: accepted it is the session's conversation, refused it stays hidden."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless.errors import NotFound

if TYPE_CHECKING:
    from datetime import datetime

    from lossless.model.conversations import Conversation
    from lossless.store.archive import Archive
    from lossless.store.conversations import Quarantined


def accept(archive: Archive, conversation_id: int, now: datetime) -> Conversation:
    """Let a quarantined conversation be its session's active one; the one that was it is closed and stays in recall."""
    with archive.writing():
        found = _get(archive, conversation_id)
        if found.beside is not None:
            archive.conversations.archive(found.beside, "quarantine-accepted", now)
        archive.conversations.accept(conversation_id, now)
        return archive.conversations.get(conversation_id)


def refuse(archive: Archive, conversation_id: int, now: datetime) -> Quarantined:
    """Keep a quarantined conversation out of every prompt; it stays in the archive, and can be accepted later."""
    with archive.writing():
        _get(archive, conversation_id)
        archive.conversations.refuse(conversation_id, now)
        return _get(archive, conversation_id)


def _get(archive: Archive, conversation_id: int) -> Quarantined:
    for found in archive.conversations.quarantined():
        if found.conversation_id == conversation_id:
            return found
    raise NotFound("quarantined conversation", conversation_id)
