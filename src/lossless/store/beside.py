"""What stands beside the context: pins, focus briefs, and the files that stubs point at."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless.errors import NotFound
from lossless.model.times import row_time
from lossless.store.foreign import text
from lossless.store.rows import moment, time
from lossless.store.sql import load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from lossless.store.database import Database

_QUERIES = load("extras")


@dataclass(frozen=True, slots=True)
class PinRow:
    """A pinned text, of its own or a message's."""

    id: int
    message_id: int | None
    content: str
    at: datetime | None


@dataclass(frozen=True, slots=True)
class BriefRow:
    """The active focus brief of a conversation."""

    id: str
    prompt: str
    content: str
    tokens: int
    target_tokens: int
    created_at: datetime | None
    covered_latest_at: datetime | None
    covered_message_seq: int | None


class Beside:
    """Reads and writes what is shown beside the context."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def pins(self, conversation_id: int) -> list[PinRow]:
        """The pins of a conversation, oldest first."""
        found = self._db.rows(_QUERIES["pins"], {"conversation_id": conversation_id})
        return [PinRow(id_, message_id, text(content), time(at)) for id_, message_id, content, at in found]

    def pin(
        self, conversation_id: int, now: datetime, *, text: str | None = None, message_id: int | None = None
    ) -> int:
        """Pin a text or a message; returns the pin's id."""
        values = {"conversation_id": conversation_id, "message_id": message_id, "content": text, "now": row_time(now)}
        self._db.run(_QUERIES["add_pin"], values)
        return self._db.last_id()

    def unpin(self, conversation_id: int, pin_id: int) -> None:
        """Take a pin away, or `NotFound`."""
        self._db.run(_QUERIES["drop_pin"], {"conversation_id": conversation_id, "pin_id": pin_id})
        if not self._db.changes():
            raise NotFound("pin", pin_id)

    def active_brief(self, conversation_id: int) -> BriefRow | None:
        """The focus brief that covers older summaries, if one is active."""
        row = self._db.row(_QUERIES["active_brief"], {"conversation_id": conversation_id})
        if row is None:
            return None
        id_, prompt, content, tokens, target, created, latest, seq = row
        return BriefRow(text(id_), text(prompt), text(content), tokens, target, moment(created), time(latest), seq)

    def newest_seqs(self, conversation_id: int) -> dict[str, int]:
        """The newest message below each summary of the context; reads the whole graph below it."""
        return dict(self._db.rows(_QUERIES["newest_seqs"], {"conversation_id": conversation_id}))

    def newcomers(self, conversation_id: int, brief_id: str) -> frozenset[str]:
        """Summaries of the context that surgery brought before all that a brief was written from."""
        place = {"conversation_id": conversation_id, "brief_id": brief_id}
        return frozenset(row[0] for row in self._db.rows(_QUERIES["newcomers"], place))

    def files(self, file_ids: Sequence[str]) -> dict[str, tuple[int, str]]:
        """Size and exploration summary of stored files."""
        found = self._db.rows(_QUERIES["files"], {"ids": json.dumps(list(file_ids))})
        return {file_id: (size or 0, summary or "") for file_id, size, summary in found}
