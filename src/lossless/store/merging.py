"""Conversations that are one: their rows move into the active one, and back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lossless.model.times import row_time, state_time
from lossless.store.rows import moment
from lossless.store.sql import load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from lossless.store.archive import Archive

_QUERIES = load("moving")
_CONTEXT = load("context")
#: Why a merged conversation owes a sweep.
OWED = "doctor-rollover-split-repair"
_THINGS = ("summaries", "files", "briefs", "pins")


@dataclass(frozen=True, slots=True)
class SplitRow:
    """An archived conversation with messages, under the key of an active one."""

    target_id: int
    source_id: int
    cause: str | None
    created_at: datetime
    messages: int
    #: Whether it goes on after the active one began.
    overlaps: bool
    session_key: str


class Merging:
    """Moves rows between conversations; every method that writes needs a transaction."""

    def __init__(self, archive: Archive) -> None:
        self._archive, self._db = archive, archive.database

    def splits(self, session_key: str | None = None) -> list[SplitRow]:
        """Archived conversations beside an active one of the same key, oldest first."""
        return [
            SplitRow(target, source, cause, moment(created), messages, bool(overlaps), key)
            for target, source, cause, created, messages, overlaps, key in self._db.rows(
                _QUERIES["split_keys"], {"key": session_key}
            )
        ]

    def snapshot(self, conversation_id: int, offset: int, others: Sequence[int]) -> dict[str, Any]:
        """What of a conversation moves, and by how much its messages do, as JSON: enough to move it back."""
        place = {"conversation_id": conversation_id}
        found: dict[str, Any] = {"id": conversation_id, "offset": offset, "last": self.last_seq(conversation_id)}
        found["context"] = [[ordinal, item] for ordinal, item in self._db.rows(_QUERIES["context"], place)]
        for thing in ("summaries", "files", "pins", "hidden"):
            found[thing] = [row[0] for row in self._db.rows(_QUERIES[f"{thing}_of"], place)]
        keys = self._db.rows(_QUERIES["records_of"], place | {"others": json.dumps(list(others))})
        found["records"] = [row[0] for row in keys]
        found["briefs"] = [[id_, status] for id_, status in self._db.rows(_QUERIES["briefs_of"], place)]
        return found

    def last_seq(self, conversation_id: int) -> int:
        row = self._db.row(_QUERIES["last_seq"], {"conversation_id": conversation_id})
        return row[0] if row else 0

    def clear_ids(self, source_id: int, other_ids: Sequence[int]) -> list[list[Any]]:
        """Take the host's ids from messages where others have the same; returns what they were."""
        values = {"source": source_id, "others": json.dumps(list(other_ids))}
        clashing = [list(row) for row in self._db.rows(_QUERIES["clashing_ids"], values)]
        self._db.run_many(_QUERIES["clear_ids"], [{"message_id": row[0]} for row in clashing])
        return clashing

    def set_ids(self, rows: Sequence[Sequence[Any]]) -> None:
        """Give messages the host's ids that they had."""
        values = [{"message_id": id_, "entry_id": entry, "event_key": event} for id_, entry, event in rows]
        self._db.run_many(_QUERIES["set_ids"], values)

    def shift(self, conversation_id: int, by: int) -> None:
        """Number the messages of a conversation `by` higher, and what is told by their numbers."""
        self.move_messages(conversation_id, conversation_id, by)
        for query in ("shift_briefs", "shift_records"):
            self._db.run(_QUERIES[query], {"conversation_id": conversation_id, "by": by})

    def move_messages(self, source: int, to: int, by: int, first: int = 1, last: int = 2**62) -> None:
        """Make a stretch of messages another conversation's, each numbered `by` higher."""
        values = {"from": source, "to": to, "by": by, "first": first, "last": last}
        self._db.run(_QUERIES["move_messages"], values)
        self._db.run(_QUERIES["right_places"], {"conversation_id": to})

    def move_records(self, keys: Sequence[str], source: int, to: int, by: int) -> None:
        """Let records of a transcript go along with the messages that they stand behind."""
        values = {"from": source, "to": to, "by": by, "keys": json.dumps(list(keys))}
        self._db.run(_QUERIES["move_records"], values)

    def move(self, things: dict[str, Any], to: int, source: int) -> None:
        """Move summaries, files, briefs, pins and hidden items of a snapshot from one conversation into another."""
        for thing in _THINGS:
            ids = [item[0] if isinstance(item, list) else item for item in things[thing]]
            self._db.run(_QUERIES[f"move_{thing}"], {"conversation_id": to, "from": source, "ids": json.dumps(ids)})
        hidden = {"conversation_id": to, "from": source, "ids": json.dumps(things["hidden"])}
        self._db.run(_QUERIES["move_hidden"], hidden)

    def retire_briefs(self, things: dict[str, Any]) -> None:
        """No brief of a source stays active beside the target's."""
        self._db.run(_QUERIES["retire_briefs"], {"ids": json.dumps([id_ for id_, _ in things["briefs"]])})

    def revive_briefs(self, things: dict[str, Any]) -> None:
        self._db.run_many(_QUERIES["set_brief_status"], [(status, id_) for id_, status in things["briefs"]])

    def move_keys(self, source_id: int, to: int) -> None:
        """Batches that a source knows count as known in the target."""
        self._db.run(_QUERIES["move_keys"], {"conversation_id": to, "from": source_id})

    def drop_states(self, conversation_id: int) -> None:
        """Forget what was remembered only for the next turn of a conversation."""
        for name, sql in _QUERIES.items():
            if name.startswith("state."):
                self._db.run(sql, {"conversation_id": conversation_id})

    def set_context(self, conversation_id: int, items: Sequence[tuple[int, int | str]], now: datetime) -> None:
        """Let a context be exactly these items at these ordinals."""
        self._db.run(_QUERIES["clear_context"], {"conversation_id": conversation_id})
        at = row_time(now)
        for ordinal, item in items:
            values: dict[str, Any] = {"conversation_id": conversation_id, "ordinal": ordinal, "now": at}
            if isinstance(item, int):
                self._db.run(_CONTEXT["put_message"], values | {"message_id": item})
            else:
                self._db.run(_CONTEXT["put_summary"], values | {"summary_id": item})

    def owe(self, conversation_id: int, now: datetime) -> None:
        """Ask for a sweep of what was put together."""
        self._db.run(_QUERIES["owe"], {"conversation_id": conversation_id, "now": state_time(now), "reason": OWED})
