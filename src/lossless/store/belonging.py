"""Whose rows are: what undoing looks at before it moves, restores or removes anything."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lossless.store.sql import load

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lossless.store.archive import Archive

_QUERIES = load("belonging")


class Belonging:
    """Reads only. What is not in the archive is in no answer."""

    def __init__(self, archive: Archive) -> None:
        self._db = archive.database

    def messages(self, ids: Iterable[int]) -> dict[int, tuple[int, int]]:
        """The conversation and the seq of each message."""
        found = self._db.rows(_QUERIES["messages"], {"ids": json.dumps(sorted(set(ids)))})
        return {id_: (conversation_id, seq) for id_, conversation_id, seq in found}

    def summaries(self, ids: Iterable[str]) -> dict[str, int]:
        """The conversation of each summary."""
        return dict(self._db.rows(_QUERIES["summaries"], {"ids": json.dumps(sorted(set(ids)))}))

    def brief(self, id_: str) -> int | None:
        """The conversation of a focus brief."""
        row = self._db.row(_QUERIES["briefs"], {"ids": json.dumps([id_])})
        return None if row is None else int(row[1])

    def merges_of(self, conversation_id: int) -> list[tuple[int, int]]:
        """Line of the log and target of each merge that a conversation went away with, newest first."""
        found = self._db.rows(_QUERIES["merges_of"], {"conversation_id": conversation_id})
        return [(log_id, target) for log_id, target in found]

    def needed(
        self, conversation_id: int, summary_ids: Sequence[str], message_ids: Sequence[int]
    ) -> tuple[str, str] | None:
        """One of some copies that something else than they and the conversation's context needs, and what that is."""
        ids = {"summaries": json.dumps(list(summary_ids)), "messages": json.dumps(list(message_ids))}
        row = self._db.row(_QUERIES["needed"], ids | {"conversation_id": conversation_id})
        return None if row is None else (str(row[0]), str(row[1]))
