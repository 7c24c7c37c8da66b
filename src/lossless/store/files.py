"""Large payloads as rows: where their bytes lie, what is said about them, and who refers to them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from lossless.errors import NotFound
from lossless.model.files import StoredFile
from lossless.model.identity import file_ids_in
from lossless.model.times import parse_time, row_time
from lossless.store.database import Database
from lossless.store.skeleton import to_json
from lossless.store.sql import load

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from lossless.model.messages import Json, Role
    from lossless.store.database import Params, Row

_QUERIES = load("files")
#: How far back a call is looked for from its answer.
_CALL_DISTANCE = 200
#: A part with this mark has its text in `messages.content`.
_IN_CONTENT = "topLevelReasoningOnly"


class StreamingDatabase(Database, Protocol):
    """A database that also gives the rows of a query one by one."""

    def stream(self, sql: str, params: Params = ()) -> Iterator[Row]:
        """The rows of a query, never all of them in memory."""
        ...


@dataclass(frozen=True, slots=True)
class LargeOutput:
    """A large answer of a tool whose text lies in its message only."""

    message_id: int
    conversation_id: int
    byte_size: int
    head: str
    seq: int
    tool: str | None
    call_id: str | None


@dataclass(frozen=True, slots=True)
class CallRow:
    """A stored call of a tool."""

    tool: str | None
    input: str | None


class Files:
    """Reads and writes of `large_files`, and of the marks that messages carry for them."""

    def __init__(self, database: StreamingDatabase) -> None:
        self._db = database

    # --- rows ---------------------------------------------------------------------------------------

    def add(self, files: Sequence[StoredFile]) -> None:
        """Write rows; one that is there stays as it is."""
        self._db.run_many(_QUERIES["insert"], [_values(file) for file in files])

    def get(self, file_id: str) -> StoredFile:
        """One file, or `NotFound`."""
        found = self.many([file_id])
        if file_id not in found:
            raise NotFound("file", file_id)
        return found[file_id]

    def many(self, file_ids: Iterable[str]) -> dict[str, StoredFile]:
        """Files by id; unknown ids are left out."""
        found = self._db.rows(_QUERIES["by_ids"], {"ids": json.dumps(list(file_ids))})
        return {row[0]: _file(row) for row in found}

    def listed(
        self,
        conversation_ids: Sequence[int] | None = None,
        *,
        file_ids: Sequence[str] | None = None,
        since: datetime | None = None,
        before: datetime | None = None,
        limit: int = -1,
    ) -> list[StoredFile]:
        """Files of some conversations, or of all, newest first."""
        values = {
            "conversations": None if conversation_ids is None else json.dumps(list(conversation_ids)),
            "ids": None if file_ids is None else json.dumps(list(file_ids)),
            "since": None if since is None else row_time(since),
            "before": None if before is None else row_time(before),
            "limit": limit,
        }
        return [_file(row) for row in self._db.rows(_QUERIES["in_conversations"], values)]

    def ids(self) -> frozenset[str]:
        """The ids of all rows."""
        return frozenset(row[0] for row in self._db.rows(_QUERIES["ids"]))

    def remove(self, file_ids: Iterable[str]) -> None:
        """Delete rows; on a person's command only."""
        self._db.run_many(_QUERIES["delete"], [{"id": id_} for id_ in file_ids])

    # --- who refers to them ---------------------------------------------------------------------------

    def referenced_ids(self) -> frozenset[str]:
        """Every file id that a message, a part, a summary, a pin or a brief names; reads all of them."""
        found: set[str] = set()
        for (text,) in self._db.stream(_QUERIES["mentions"]):
            found.update(file_ids_in(text if isinstance(text, str) else ""))
        return frozenset(found)

    def orphans(self) -> list[StoredFile]:
        """Files with a row that nothing refers to."""
        referenced = self.referenced_ids()
        return [file for file in self.listed() if file.id not in referenced]

    # --- what messages remember -----------------------------------------------------------------------

    def note(self, message_id: int, role: Role, notes: Mapping[int, Mapping[str, Json]]) -> None:
        """Add to the metadata of a message's parts, by ordinal; a message without part rows gets one for it."""
        rows: dict[int, str | None] = dict(self._db.rows(_QUERIES["part_metadata"], {"message_id": message_id}))
        if not rows:
            together: dict[str, Any] = {"originalRole": "toolResult" if role == "tool" else role, _IN_CONTENT: True}
            for more in notes.values():
                together |= more
            row = {"part_id": f"{message_id}.0", "message_id": message_id, "metadata": to_json(together)}
            self._db.run(_QUERIES["add_part"], row)
            return
        for ordinal, more in notes.items():
            at = ordinal if ordinal in rows else min(rows)
            metadata = json.loads(rows[at] or "{}") | dict(more)
            rows[at] = to_json(metadata)
            place = {"message_id": message_id, "ordinal": at, "metadata": rows[at]}
            self._db.run(_QUERIES["set_part_metadata"], place)

    def recipes(self, message_ids: Sequence[int]) -> dict[int, Json]:
        """How the originals of intercepted messages are made again, by message id."""
        found: dict[int, Json] = {}
        for message_id, metadata in self._db.rows(_QUERIES["notes"], {"ids": json.dumps(list(message_ids))}):
            recipe = json.loads(metadata).get("restore")
            if recipe is not None:
                found.setdefault(message_id, recipe)
        return found

    def stubbed_content(self, file_id: str) -> tuple[int, str] | None:
        """The message whose text a back-filled file repeats: its id and its text."""
        row = self._db.row(_QUERIES["stubbed_content"], {"id": file_id})
        return None if row is None else (row[0], row[1])

    def call(self, conversation_id: int, call_id: str, before_seq: int | None = None) -> CallRow | None:
        """The newest call with this id among the messages shortly before a place, or before the end."""
        if before_seq is None:
            row = self._db.row(_QUERIES["newest_seq"], {"conversation_id": conversation_id})
            before_seq = (row[0] if row else 0) + 1
        place = {"conversation_id": conversation_id, "call_id": call_id, "seq": before_seq}
        found = self._db.row(_QUERIES["tool_of_call"], place | {"from_seq": before_seq - _CALL_DISTANCE})
        return None if found is None else CallRow(found[0], _spoken(found[1]))

    # --- stubs ----------------------------------------------------------------------------------------

    def large_outputs(self, least_bytes: int, conversation_id: int | None = None) -> list[LargeOutput]:
        """Answers of tools of at least so many bytes that lie in no file yet, oldest first."""
        values = {"least": least_bytes, "conversation_id": conversation_id}
        return [LargeOutput(*row) for row in self._db.rows(_QUERIES["large_tool_outputs"], values)]

    def set_stub(self, message_id: int, file_id: str) -> None:
        """Say that a message's text also lies in a file; its text stays."""
        self._db.run(_QUERIES["set_stub"], {"message_id": message_id, "file_id": file_id})

    def stubs(self, conversation_id: int | None = None) -> dict[int, str]:
        """The messages whose text also lies in a file, with the file's id."""
        return dict(self._db.rows(_QUERIES["stubs"], {"conversation_id": conversation_id}))

    def clear_stubs(self, message_ids: Iterable[int]) -> None:
        """Take these marks away again."""
        self._db.run_many(_QUERIES["clear_stub"], [{"message_id": id_} for id_ in message_ids])


def _spoken(tool_input: str | None) -> str | None:
    """An input as the model wrote it: JSON text that was stored as a string is that text."""
    try:
        value = json.loads(tool_input or "null")
    except ValueError:
        return tool_input
    return value if isinstance(value, str) else tool_input


def _values(file: StoredFile) -> dict[str, object]:
    return {
        "id": file.id, "conversation_id": file.conversation_id, "name": file.name, "mime": file.mime,
        "size": file.byte_size, "lines": file.line_count, "place": file.storage_uri,
        "summary": file.exploration_summary, "created_at": row_time(file.created_at),
    }  # fmt: skip


def _file(row: Row) -> StoredFile:
    id_, conversation_id, name, mime, size, lines, place, summary, created = row
    return StoredFile(id_, conversation_id, name, mime, size, lines, place, summary, parse_time(created))
