"""Small databases to be moved: lossless-claw's as they really are, and those that Remnic's importer believes in."""

from __future__ import annotations

import hashlib
import json
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import apsw

from lossless.store.database import load_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

_TOY = """
CREATE TABLE conversations (conversation_id TEXT PRIMARY KEY, session_id TEXT, session_key TEXT, title TEXT);
CREATE TABLE messages (message_id TEXT PRIMARY KEY, conversation_id TEXT NOT NULL, seq INTEGER NOT NULL,
  role TEXT NOT NULL, content TEXT NOT NULL, token_count INTEGER NOT NULL, identity_hash TEXT,
  created_at TEXT NOT NULL);
CREATE TABLE summaries (summary_id TEXT PRIMARY KEY, conversation_id TEXT, depth INTEGER NOT NULL,
  content TEXT NOT NULL, token_count INTEGER NOT NULL, earliest_at TEXT, latest_at TEXT);
CREATE TABLE summary_messages (summary_id TEXT NOT NULL, message_id TEXT NOT NULL, ordinal INTEGER);
CREATE TABLE summary_parents (summary_id TEXT NOT NULL, parent_summary_id TEXT NOT NULL, ordinal INTEGER);
CREATE TABLE message_parts (message_id TEXT NOT NULL, ordinal INTEGER, kind TEXT, payload TEXT, tool_name TEXT,
  file_path TEXT, created_at TEXT);
"""


@dataclass(frozen=True)
class Line:
    """A message: who, what, when, how many tokens."""

    content: str
    role: str = "user"
    at: str = "2026-03-01 10:00:00"
    tokens: int = 10
    parts: tuple[Mapping[str, Any], ...] = ()
    seq: int | None = None


@dataclass
class Talk:
    """A conversation of a database to be."""

    session_id: str | None
    lines: Sequence[Line]
    session_key: str | None = None
    #: Leaves: id → places of messages, counted from 0. Condensed: id → ids of sources.
    leaves: Mapping[str, Sequence[int]] = field(default_factory=dict)
    condensed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    context: Sequence[int | str] | None = None
    title: str | None = None
    active: int = 1


def real(path: Path, talks: Sequence[Talk]) -> Path:
    """A database with lossless-claw's own tables."""
    with closing(apsw.Connection(str(path))) as connection, connection:
        connection.execute(load_schema("base"))
        connection.execute(load_schema("indexes"))
        message_id = 0
        for number, talk in enumerate(talks, 1):
            _insert(
                connection, "conversations",
                "conversation_id, session_id, session_key, active, title, created_at, updated_at",
                [(number, talk.session_id, talk.session_key, talk.active, talk.title, *["2026-03-01 09:00:00"] * 2)],
            )  # fmt: skip
            first = message_id + 1
            _messages(connection, number, talk, first)
            message_id += len(talk.lines)
            _summaries(connection, number, talk, first)
    return path


def _messages(connection: apsw.Connection, number: int, talk: Talk, first: int) -> None:
    values = [
        (first + n, number, n + 1 if line.seq is None else line.seq, line.role, line.content, line.tokens,
         identity(line.role, line.content), line.at)
        for n, line in enumerate(talk.lines)
    ]  # fmt: skip
    columns = "message_id, conversation_id, seq, role, content, token_count, identity_hash, created_at"
    _insert(connection, "messages", columns, values)
    for id_, line in enumerate(talk.lines, first):
        for ordinal, part in enumerate(line.parts):
            place = {"part_id": f"part-{id_}-{ordinal}", "message_id": id_, "session_id": talk.session_id}
            row = place | {"ordinal": ordinal} | dict(part)
            _insert(connection, "message_parts", ", ".join(row), [tuple(row.values())])


def _summaries(connection: apsw.Connection, number: int, talk: Talk, first: int) -> None:
    columns = "summary_id, conversation_id, kind, depth, content, token_count, earliest_at, latest_at, model"
    depths: dict[str, int] = {}
    times: dict[str, tuple[str, str]] = {}
    for id_, places in talk.leaves.items():
        depths[id_] = 0
        said = [talk.lines[place].at for place in places] or ["2026-03-01T10:00:00.000Z"]
        at = times[id_] = (min(said), max(said))
        _insert(connection, "summaries", columns, [(id_, number, "leaf", 0, f"words of {id_}", 3, *at, "model-a")])
        rows = [(id_, first + place, n) for n, place in enumerate(places)]
        _insert(connection, "summary_messages", "summary_id, message_id, ordinal", rows)
    for id_, sources in talk.condensed.items():
        depths[id_] = max(depths[source] for source in sources) + 1
        at = times[id_] = (min(times[source][0] for source in sources), max(times[source][1] for source in sources))
        row = (id_, number, "condensed", depths[id_], f"words of {id_}", 3, *at, "model-b")
        _insert(connection, "summaries", columns, [row])
        _insert(
            connection, "summary_parents", "summary_id, parent_summary_id, ordinal",
            [(id_, source, n) for n, source in enumerate(sources)],
        )  # fmt: skip
    context = range(len(talk.lines)) if talk.context is None else talk.context
    _insert(
        connection, "context_items", "conversation_id, ordinal, item_type, message_id, summary_id",
        [
            (number, n, "message", first + item, None) if isinstance(item, int) else (number, n, "summary", None, item)
            for n, item in enumerate(context)
        ],
    )  # fmt: skip


def toy(
    path: Path,
    conversations: Mapping[str, str | None],
    messages: Sequence[tuple[str, int, str, int, str]],
    summaries: Mapping[str, Sequence[str]] | None = None,
    parents: Sequence[tuple[str, str, int]] = (),
    depths: Mapping[str, int] | None = None,
) -> Path:
    """A database as Remnic's importer expects it: ids are texts. Messages: conversation, seq, content, tokens, time."""
    with closing(apsw.Connection(str(path))) as connection, connection:
        connection.execute(_TOY)
        _insert(connection, "conversations", "conversation_id, session_id", conversations.items())
        rows = [
            (f"{id_}:{seq}", id_, seq, "user" if seq % 2 == 0 else "assistant", content, tokens, at)
            for id_, seq, content, tokens, at in messages
        ]
        _insert(
            connection, "messages", "message_id, conversation_id, seq, role, content, token_count, created_at", rows
        )
        for id_, linked in (summaries or {}).items():
            depth = (depths or {}).get(id_, 0)
            row = (id_, depth, f"words of {id_}", 1)
            _insert(connection, "summaries", "summary_id, depth, content, token_count", [row])
            rows_ = [(id_, message, n) for n, message in enumerate(linked)]
            _insert(connection, "summary_messages", "summary_id, message_id, ordinal", rows_)
        _insert(connection, "summary_parents", "summary_id, parent_summary_id, ordinal", parents)
    return path


def _insert(connection: apsw.Connection, table: str, columns: str, rows: Iterable[Sequence[Any]]) -> None:
    places = ", ".join("?" for _ in columns.split(","))
    connection.executemany(f"INSERT INTO {table} ({columns}) VALUES ({places})", rows)


def identity(role: str, content: str) -> str:
    """The identity of a plain message, worked out here."""
    return hashlib.sha256(f"{role}\0{content}".encode()).hexdigest()


def rows(path: Path, sql: str, *values: object) -> list[tuple[Any, ...]]:
    """Rows of a database, as another program reads them."""
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        return connection.execute(sql, values).fetchall()


def run(path: Path, *statements: str) -> None:
    """What another program does to a database."""
    with closing(apsw.Connection(str(path))) as connection:
        for statement in statements:
            connection.execute(statement)


def bytes_of(path: Path) -> dict[str, str]:
    """Digests of a database and its log."""
    found = (path, path.with_name(f"{path.name}-wal"))
    return {place.name: hashlib.sha256(place.read_bytes()).hexdigest() for place in found if place.exists()}


def parts_of_tools() -> tuple[Line, Line]:
    """A call with a thought and its result, with the columns that lossless-claw fills."""
    call = Line(
        "", "assistant", parts=(
            {"part_type": "reasoning", "text_content": "hm", "metadata": json.dumps({"originalRole": "assistant"})},
            {"part_type": "tool", "tool_call_id": "c1", "tool_name": "read", "tool_input": '{"path":"a.txt"}',
             "metadata": json.dumps({"originalRole": "assistant", "rawType": "toolCall"})},
        ),
    )  # fmt: skip
    result = Line(
        "port 8443", "tool", parts=(
            {"part_type": "tool", "tool_call_id": "c1", "tool_name": "read", "tool_output": '"port 8443"',
             "metadata": json.dumps({"originalRole": "toolResult", "rawType": "toolResult"})},
            {"part_type": "file", "file_name": "a.txt", "file_mime": "text/plain",
             "metadata": json.dumps({"originalRole": "toolResult", "rawType": "file", "raw": {"type": "file"}})},
        ),
    )  # fmt: skip
    return call, result


def tree_of_24() -> Talk:
    """24 messages in pairs that share a second, three leaves of eight, one condensed summary, parts of all kinds."""
    call, result = parts_of_tools()
    lines = [Line(f"line {n}", ("user", "assistant")[n % 2], f"2026-03-01 10:00:{n // 2:02d}") for n in range(24)]
    lines[3] = Line(call.content, call.role, lines[3].at, parts=call.parts)
    lines[4] = Line(result.content, result.role, lines[4].at, parts=result.parts)
    leaves = {f"sum_{n}": range(8 * n, 8 * n + 8) for n in range(3)}
    return Talk("run-1", lines, "agent:main:main", leaves, {"sum_top": list(leaves)}, ["sum_top"])
