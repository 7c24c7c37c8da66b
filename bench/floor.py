"""The floor: what bare SQLite needs for the bytes that an archive stores. `python -m bench.floor`

The base tables of an archive with their indexes and its pragmas; straight INSERTs of rows that were made
before the clock started; the full-text index filled by INSERT … SELECT in the same transaction. No hashing,
no decoding, no reads. Other benchmarks state their figures as multiples of this.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
import uuid
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from bench.conversations import agent_conversation, by_turn, json_bytes, text_bytes, text_of, turns
from bench.measure import Cpu, interleaved, stopwatch, table, write
from lossless.model.times import from_epoch, row_time
from lossless.model.tokens import estimate_tokens
from lossless.store.database import load_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench.conversations import ChatMessage

_SESSION = "11111111-2222-4333-8444-555555555555"
_ROLES = {"toolResult": "tool"}
_PART_TYPES = {"text": "text", "thinking": "reasoning", "toolCall": "tool"}

_PRAGMAS = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA busy_timeout = 30000;
PRAGMA foreign_keys = ON;
PRAGMA cache_size = -65536;
PRAGMA temp_store = MEMORY;
"""
_SEARCH = """
CREATE VIRTUAL TABLE floor_search USING fts5 (
    body, extra, content = '', contentless_delete = 1, tokenize = 'porter unicode61 remove_diacritics 2'
)
"""
_MESSAGE = """
INSERT INTO messages (message_id, conversation_id, seq, role, content, token_count, identity_hash, created_at)
VALUES (?, 1, ?, ?, ?, ?, ?, ?)
"""
_PART = """
INSERT INTO message_parts (part_id, message_id, session_id, part_type, ordinal, text_content, tool_call_id,
                           tool_name, tool_input, metadata)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_ITEM = """
INSERT INTO context_items (conversation_id, ordinal, item_type, message_id, created_at)
VALUES (1, ?, 'message', ?, ?)
"""
_INDEX = """
INSERT INTO floor_search (rowid, body) SELECT message_id, content FROM messages WHERE message_id > ?
"""


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one transaction, ready to be bound."""

    first: int
    messages: tuple[tuple[object, ...], ...]
    parts: tuple[tuple[object, ...], ...]
    items: tuple[tuple[object, ...], ...]


def floor_turns(messages: Iterable[ChatMessage], path: Path | str) -> float:
    """CPU seconds to store the messages in a new file, one transaction for a user message and its replies."""
    return _store(list(by_turn(messages)), path)


def floor_batch(messages: Iterable[ChatMessage], path: Path | str) -> float:
    """CPU seconds to store the messages in a new file in one transaction."""
    return _store([list(messages)], path)


class FloorTurns:
    """The floor over a history: turns that are stored one by one into a file that holds so many messages already."""

    def __init__(self, history: int, count: int, path: Path | str) -> None:
        said = [list(turn) for turn in turns(history // 2 + count)]
        before = [message for turn in said[: history // 2] for message in turn]
        transactions = iter(list(_transactions([before, *said[history // 2 :]])))
        self._db = open_floor(path)
        _insert(self._db, next(transactions))
        self._turns = transactions

    def store(self, count: int) -> float:
        """CPU seconds of the next so many turns."""
        with stopwatch() as watch:
            for rows in islice(self._turns, count):
                _insert(self._db, rows)
        return watch.seconds

    def close(self) -> None:
        self._db.close()


def _store(batches: Sequence[Sequence[ChatMessage]], path: Path | str) -> float:
    transactions = list(_transactions(batches))
    db = open_floor(path)
    with stopwatch() as watch:
        for rows in transactions:
            _insert(db, rows)
    db.close()
    return watch.seconds


def open_floor(path: Path | str) -> apsw.Connection:
    """A new file with the archive's tables, its pragmas, a search index and one conversation."""
    db = apsw.Connection(str(path))
    db.execute(_PRAGMAS)
    for script in (load_schema("base"), load_schema("indexes"), _SEARCH):
        db.execute(script)
    db.execute("INSERT INTO conversations (session_id, session_key) VALUES (?, 'agent:main:main')", (_SESSION,))
    return db


def _insert(db: apsw.Connection, rows: Rows) -> None:
    db.execute("BEGIN IMMEDIATE")
    db.executemany(_MESSAGE, rows.messages)
    if rows.parts:
        db.executemany(_PART, rows.parts)
    db.executemany(_ITEM, rows.items)
    db.execute(_INDEX, (rows.first - 1,))
    db.execute("COMMIT")


def _transactions(batches: Sequence[Sequence[ChatMessage]]) -> Iterable[Rows]:
    first = 1
    for batch in batches:
        numbered = list(enumerate(batch, start=first))
        yield Rows(
            first=first,
            messages=tuple(_message_row(number, message) for number, message in numbered),
            parts=tuple(chain.from_iterable(_part_rows(number, message) for number, message in numbered)),
            items=tuple((number - 1, number, _time(number, message)) for number, message in numbered),
        )
        first += len(batch)


def _message_row(number: int, message: ChatMessage) -> tuple[object, ...]:
    role, text = _ROLES.get(message["role"], message["role"]), text_of(message["content"])
    identity = hashlib.sha256(f"{role}\0{text}".encode()).hexdigest()
    return number, number, role, text, estimate_tokens(text), identity, _time(number, message)


def _part_rows(number: int, message: ChatMessage) -> Iterable[tuple[object, ...]]:
    """One row for each block of a structured message, holding what `messages.content` does not hold."""
    if isinstance(message["content"], str):
        return
    envelope = {key: value for key, value in message.items() if key not in ("role", "content")}
    for ordinal, block in enumerate(message["content"]):
        kept = {key: value for key, value in block.items() if key not in ("text", "thinking", "arguments")}
        metadata = {"originalRole": message["role"], "raw": kept} | (envelope if ordinal == 0 else {})
        yield (
            str(uuid.UUID(int=number * 1000 + ordinal)),
            number,
            _SESSION,
            _PART_TYPES[block["type"]],
            ordinal,
            block.get("thinking"),
            block.get("id") or message.get("toolCallId"),
            block.get("name") or message.get("toolName"),
            _json(block["arguments"]) if "arguments" in block else None,
            _json(metadata),
        )


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _time(number: int, message: ChatMessage) -> str:
    return row_time(from_epoch(message.get("timestamp", 1_767_603_600_000 + number * 1000)))


def run(count: int, repeat: int) -> list[dict[str, object]]:
    """The floor of `count` messages: chat and agent messages, by turns and in one batch."""
    inputs = {
        "chat": [message for turn in turns(count // 2) for message in turn],
        "agent": list(agent_conversation(count)),
    }
    ways = {"turns": floor_turns, "batch": floor_batch}
    sizes: dict[tuple[str, str], int] = {}
    with tempfile.TemporaryDirectory() as folder:

        def store(kind: str, how: str) -> float:
            path = Path(folder) / f"{kind}-{how}.db"
            seconds = ways[how](inputs[kind], path)
            sizes[kind, how] = path.stat().st_size
            path.unlink()
            return seconds

        figures = interleaved({(kind, how): partial(store, kind, how) for kind in inputs for how in ways}, repeat)
    return [_row(kind, how, inputs[kind], figure, sizes[kind, how]) for (kind, how), figure in figures.items()]


def _row(kind: str, how: str, messages: Sequence[ChatMessage], figure: Cpu, size: int) -> dict[str, object]:
    transactions = len(list(by_turn(messages))) if how == "turns" else 1
    return {
        "messages": kind,
        "stored by": how,
        "count": len(messages),
        "transactions": transactions,
        "cpu s (min)": round(figure.min, 4),
        "cpu s (median)": round(figure.median, 4),
        "ms a transaction": round(figure.each(transactions), 4),
        "us a message": round(figure.each(len(messages)) * 1000, 2),
        "file / JSON": round(size / json_bytes(messages), 3),
        "file / text": round(size / text_bytes(messages), 3),
    }


def main() -> None:
    """Print the floor's table and keep it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    rows = run(options.messages, options.repeat)
    table(rows, f"Floor: bare SQLite, {options.messages:,} messages, {options.repeat} interleaved runs")
    path = write(
        "floor",
        rows,
        {
            "input": "turns() and agent_conversation()",
            "seed": {"turns": 7, "agent": 42},
            "repeat": options.repeat,
        },
    )
    print(f"\n{path}")


if __name__ == "__main__":
    main()
