"""What is in an archive, read from the file itself with SQL of its own: rows, their words, and earlier wordings."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import apsw

from tests.hosts_fuzz.formats import read
from tests.hosts_fuzz.words import Words

if TYPE_CHECKING:
    from pathlib import Path

    import lossless

_ROWS = """
    SELECT m.message_id, m.conversation_id, m.role, m.content,
           EXISTS (SELECT 1 FROM context_items c WHERE c.message_id = m.message_id) AS here,
           (SELECT h.cause FROM hidden_items h WHERE h.item = m.message_id) AS cause
    FROM messages m JOIN conversations v USING (conversation_id)
    WHERE v.session_key = ? OR v.session_key LIKE ? || ':%' OR v.session_id = ? ORDER BY m.message_id
"""
_PARTS = """
    SELECT part_type, text_content, tool_call_id, tool_name, tool_input, tool_output, metadata
    FROM message_parts WHERE message_id = ? ORDER BY ordinal
"""


@dataclass(slots=True)
class Row:
    """A stored message: its current words, and all others that it was ever shown in."""

    id: int
    conversation: int
    words: Words
    in_context: bool
    cause: str | None
    wordings: set[tuple[str, str]] = field(default_factory=set)


class Reader:
    """Reads an archive beside the engine that writes it."""

    def __init__(self, path: Path, engine: lossless.Engine) -> None:
        self._db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        self._engine = engine

    def rows(self, session_key: str) -> list[Row]:
        """All rows of a session's family."""
        found = []
        for id_, conversation, role, content, here, cause in list(self._db.execute(_ROWS, (session_key,) * 3)):
            words = self._words(id_, role, content)
            row = Row(id_, conversation, words, bool(here), cause, set(words.pieces))
            for other in self._versions(id_):
                row.wordings |= other
            found.append(row)
        return found

    def state(self, session_key: str) -> list[tuple[Any, ...]]:
        """What a call that comes again must leave as it is."""
        return [(row.id, row.words, row.in_context, frozenset(row.wordings)) for row in self.rows(session_key)]

    def _words(self, message_id: int, role: str, content: str) -> Words:
        calls, thinking, answers = [], [], ""
        for type_, text, call_id, name, given, _, metadata in self._db.execute(_PARTS, (message_id,)):
            if type_ == "tool" and given is not None:
                calls.append((call_id or "", name or "", _arguments(given)))
            elif type_ == "reasoning":
                thinking.append(text or _raw(metadata))
            elif role == "tool" and call_id:
                answers = call_id
        return Words(role, content, tuple(calls), "".join(thinking), answers)

    def _versions(self, message_id: int) -> list[frozenset[tuple[str, str]]]:
        """The wordings that a row had before, or has been shown in: none in an archive without versions."""
        table = getattr(self._engine.archive, "versions", None)
        if table is None:
            return []
        return [_pieces(version) for version in table.of(message_id)]

    def close(self) -> None:
        self._db.close()


def _pieces(version: Any) -> frozenset[tuple[str, str]]:
    """The words of a version, whose message is read as a host would."""
    return frozenset(piece for words in read(version.message.original) for piece in words.pieces)


def _arguments(given: str) -> str:
    value = json.loads(given)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _raw(metadata: str | None) -> str:
    raw = json.loads(metadata or "{}").get("raw") or {}
    return str(raw.get("thinking", "")) if isinstance(raw, dict) else ""
