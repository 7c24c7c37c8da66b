"""The rows of large payloads that were moved out of messages, and the marks that messages have for them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from hashlib import blake2b

from lossless.model.identity import file_ids_in
from lossless.model.js_json import storable_json
from lossless.model.messages import Role, StoredFile, StoredToolOutput
from lossless.model.records import Page, PageStart
from lossless.model.times import state_time
from lossless.store.database import Sql, TableAccess, column_text, conversation_range, load_queries, only, row_values
from lossless.store.rows import DIGEST_BYTES, PartNotes, decompress_residual, with_notes
from lossless.store.search import SearchScope


def payload_digest(data: bytes) -> bytes:
    """Eight bytes for the bytes of a file."""
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


class LargeFileRows(TableAccess):
    """Reads and writes `large_files`, and the marks that messages have for them."""

    queries = load_queries("files")
    ids: Sql[[], frozenset[str]] = Sql("set")
    #: How many files a scope has, and their bytes.
    totals: Sql[[SearchScope], tuple[int, int]] = Sql("row", "where")
    #: Delete rows; only on the user's command.
    remove: Sql[[Iterable[str]], None] = Sql("run", "ids")
    #: The messages of a conversation, or of all, whose text is also in a file, with the file's id.
    stubs: Sql[[int | None], dict[int, str]] = Sql("pairs", "conversation_id")
    clear_stubs: Sql[[Iterable[int]], None] = Sql("run", "ids")
    #: Record that a message's text is also in a file; its text stays.
    set_stub: Sql[[int, str], None] = Sql("run", "message_id file_id")
    #: The newest call with this id among the 200 messages before a position, or the end: tool, and input.
    call: Sql[[int, str, int | None], tuple[str | None, str | None] | None] = Sql(
        "row", "conversation_id call_id before"
    )
    #: Tool results of at least so many bytes that are in no file yet, oldest first.
    large_outputs: Sql[[int, int | None], list[StoredToolOutput]] = Sql(
        "records", "least conversation_id", "large_tool_outputs", StoredToolOutput
    )

    def add(self, files: Sequence[StoredFile]) -> None:
        """Add rows; existing ones stay."""
        self._run_many("insert", map(row_values, files))

    def get(self, file_id: str) -> StoredFile:
        """One file; raises `NotFound`."""
        return only(self._read([file_id]), "file", file_id)

    def many(self, file_ids: Iterable[str]) -> dict[str, StoredFile]:
        """Files by id; unknown ids are left out."""
        return {file.id: file for file in self._read(file_ids)}

    def _read(self, file_ids: Iterable[str]) -> list[StoredFile]:
        return self._records(StoredFile, "by_ids", self._seen(file_ids))

    def listed(self, where: SearchScope | None = None, file_ids: Sequence[str] = ()) -> list[StoredFile]:
        """Files of a scope, newest first; optionally only the given ids."""
        return self._newest(where or SearchScope(), -1, None, file_ids)

    def page(self, where: SearchScope, limit: int, start: PageStart | None = None) -> Page[StoredFile]:
        """A page of the files of a scope, newest first, after a position."""
        found = self._newest(where, limit + 1, start)
        rows = tuple(found[:limit])
        return Page(rows, PageStart(state_time(rows[-1].created_at), rows[-1].id) if len(found) > limit else None)

    def _newest(
        self, where: SearchScope, limit: int, start: PageStart | None, file_ids: Sequence[str] = ()
    ) -> list[StoredFile]:
        behind = {"from_at": start.at if start else None, "from_id": start.id if start else None}
        values = where.values | behind | {"ids": file_ids or None, "limit": limit}
        return self._read(self._column("newest", values))

    def plain(self, limit: int, conversation_id: int | None = None, but: Iterable[str] = ()) -> list[StoredFile]:
        """Files of prose that no model has described yet, oldest first."""
        return self._read(self._column("plain", **conversation_range(conversation_id), limit=limit, but=but))

    def count_plain(self, conversation_id: int | None = None) -> int:
        """How many files of prose no model has described yet."""
        return self._count("count_plain", conversation_range(conversation_id))

    def set_summary(self, file: StoredFile, summary: str) -> bool:
        """Replace a file's summary; False when it was changed meanwhile. Needs a transaction."""
        return self._changed("set_summary", id=file.id, known=file.exploration_summary, summary=summary)

    def referenced_ids(self) -> frozenset[str]:
        """Every file id in a message, a part, a summary, a pin or a brief; reads all of them."""
        found: set[str] = set()
        for (text,) in self._stream("mentions"):
            found.update(file_ids_in(text if isinstance(text, str) else ""))
        for (body,) in self._stream("version_bodies"):
            with suppress(ValueError):
                found.update(file_ids_in(decompress_residual(body)))
        return frozenset(found)

    def note(self, message_id: int, role: Role, notes: PartNotes) -> None:
        """Add to the metadata of a message's parts, by ordinal; a message without part rows gets one."""
        rows: dict[int, str | None] = dict(self._rows("part_metadata", message_id=message_id))
        if not rows:
            (part,) = with_notes((), role, notes)
            self._run("add_part", part_id=f"{message_id}.0", message_id=message_id, metadata=part.metadata)
            self._db.noted["messages", message_id] = None
            return
        for ordinal, more in notes.items():
            at = ordinal if ordinal in rows else min(rows)
            rows[at] = storable_json(json.loads(rows[at] or "{}") | dict(more))
            self._run("set_part_metadata", message_id=message_id, ordinal=at, metadata=rows[at])

    def text_of(self, file: StoredFile) -> str | None:
        """The text of the message whose payload a file holds, unless that is a reference to the file again."""
        row = self._row("text_of", id=file.id, conversation_id=file.conversation_id, within=self.within)
        text = None if row is None else column_text(row[0])
        return None if text is None or (text.startswith("[LCM ") and file.id in text[:200]) else text
