"""What left a context because lossless-claw handled `/new` is recorded as hidden, with that cause."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lossless.model.times import parse_time
from lossless.store.context import Change
from lossless.store.sql import load

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lossless.store.archive import Archive

_QUERIES, _REBUILDING = load("cleared"), load("rebuilding")
ACTOR = "lossless-claw"


class Cleared:
    """Tells a context that lossless-claw has cleared from one that has lost its places."""

    def __init__(self, archive: Archive) -> None:
        self._archive, self._db = archive, archive.database

    def explains(self, conversation_id: int, unreachable: Sequence[int]) -> bool:
        """Whether these messages, which nothing leads to, have left by `/new`.

        Then nothing that was said before the last of them stands in the context, and lossless-claw says that it has
        cleared it since: by a time that is no older than they are. lossless-claw 1.0 has no such time.
        """
        place = {"conversation_id": conversation_id, "ids": json.dumps(list(unreachable))}
        if self._db.row(_QUERIES["standing_before"], place) is not None:
            return False
        at = self._stamp(conversation_id)
        if at is None:
            return self._db.row(_QUERIES["has_pending"]) is not None
        return self._db.row(_QUERIES["said_later"], {"ids": place["ids"], "at": at}) is None

    def unrecorded(self) -> list[int]:
        """Conversations that lossless-claw has cleared since we last wrote about it."""
        return [row[0] for row in self._db.rows(_QUERIES["stamped"])]

    def written_in(self, message_ids: Sequence[int], summary_ids: Sequence[str]) -> list[int]:
        """The conversations that some rows belong to."""
        values = {"message_ids": json.dumps(list(message_ids)), "summary_ids": json.dumps(list(summary_ids))}
        return [row[0] for row in self._db.rows(_QUERIES["written_in"], values)]

    def record(self, conversation_ids: Iterable[int]) -> int:
        """Hide what has left these contexts by `/new`; returns how many items. Opens a transaction where needed."""
        done = 0
        for id_ in conversation_ids:
            unreachable = self._archive.checks.unreachable(id_)
            if not unreachable and self._stamp(id_) is None:
                continue
            with self._archive.writing():
                unreachable = self._archive.checks.unreachable(id_)
                if not unreachable or self.explains(id_, unreachable):
                    done += self._hide(id_)
        return done

    def _hide(self, conversation_id: int) -> int:
        """Hide summaries first, as what is below them is covered then."""
        archive, place = self._archive, {"conversation_id": conversation_id}
        at = self._stamp(conversation_id)
        now = datetime.now(UTC) if at is None else parse_time(at)
        after = archive.context.tokens(conversation_id)
        summaries: list[int | str] = [row[0] for row in self._db.rows(_REBUILDING["lost_summaries"], place)]
        archive.context.hide(conversation_id, summaries, "new", now)
        messages = archive.checks.unreachable(conversation_id)
        archive.context.hide(conversation_id, messages, "new", now)
        gone = (*summaries, *messages)
        archive.context.close_gaps(conversation_id)
        archive.context.log(conversation_id, Change("new", ACTOR, None, gone, (), 0, after, after), now)
        return len(gone)

    def _stamp(self, conversation_id: int) -> str | None:
        row = self._db.row(_QUERIES["stamp"], {"conversation_id": conversation_id})
        return None if row is None else str(row[0])
