"""The newest message of a session, and how it is taken out of the view."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lossless.model.context import MessageItem
from lossless.store.context import Change

if TYPE_CHECKING:
    from lossless.engine import Engine
    from lossless.model.conversations import Session
    from lossless.model.messages import StoredMessage


def newest(engine: Engine, session: Session) -> StoredMessage | None:
    """The newest message that is in the view."""
    archive, found = engine.archive, engine.archive.conversations.find(session)
    items = archive.context.items(found.id) if found else []
    last = items[-1] if items else None
    return archive.messages.get(last.message_id) if isinstance(last, MessageItem) else None


def pop(engine: Engine, session: Session, actor: str) -> StoredMessage | None:
    """Take the newest message out of the view; the archive keeps it."""
    archive, now = engine.archive, datetime.now(UTC)
    with archive.writing():
        stored = newest(engine, session)
        if stored is None:
            return None
        place = stored.conversation_id
        before = archive.context.tokens(place)
        archive.context.hide(place, [stored.id], "popped", now)
        change = Change("hide", actor, "popped", (stored.id,), (), None, before, archive.context.tokens(place))
        archive.context.log(place, change, now)
    return stored
