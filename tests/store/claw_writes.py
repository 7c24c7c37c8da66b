"""What lossless-claw does to a file while it runs, with its own statements: compacting, `/new`, its doctor."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import apsw

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def claw(path: Path) -> Iterator[apsw.Connection]:
    """A connection of another program: none of our triggers, its own transaction."""
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(30_000)
    connection.execute("PRAGMA foreign_keys = ON")
    try:
        with connection:
            yield connection
    finally:
        connection.close()


def search_tables(db: apsw.Connection) -> None:
    """It makes its own search tables in a file that has none, and fills them."""
    db.execute(
        "CREATE VIRTUAL TABLE messages_fts USING fts5(content, tokenize='porter unicode61');"
        "CREATE VIRTUAL TABLE summaries_fts USING fts5(summary_id UNINDEXED, content, tokenize='porter unicode61');"
        "INSERT INTO messages_fts (rowid, content) SELECT message_id, content FROM messages WHERE trim(content) <> '';"
        "INSERT INTO summaries_fts (summary_id, content) SELECT summary_id, content FROM summaries"
    )


def _rows(db: apsw.Connection, sql: str, *values: Any) -> list[Any]:
    return db.execute(sql, values).fetchall()


def _replace(db: apsw.Connection, conversation_id: int, first: int, last: int, summary_id: str) -> None:
    """A range of a context becomes one summary; the items are numbered from 0 through numbers below zero."""
    db.execute(
        "DELETE FROM context_items WHERE conversation_id = ? AND ordinal BETWEEN ? AND ?",
        (conversation_id, first, last),
    )
    db.execute(
        "INSERT INTO context_items (conversation_id, ordinal, item_type, summary_id) VALUES (?, ?, 'summary', ?)",
        (conversation_id, first, summary_id),
    )
    ordinals = [
        row[0]
        for row in _rows(db, "SELECT ordinal FROM context_items WHERE conversation_id = ? ORDER BY 1", conversation_id)
    ]
    change = "UPDATE context_items SET ordinal = ? WHERE conversation_id = ? AND ordinal = ?"
    for n, ordinal in enumerate(ordinals):
        db.execute(change, (-n - 1, conversation_id, ordinal))
    for n in range(len(ordinals)):
        db.execute(change, (n, conversation_id, -n - 1))


def leaf(db: apsw.Connection, conversation_id: int, most: int, summary_id: str = "sum_00000000000000aa") -> str:
    """It folds the oldest raw run of a context into a leaf."""
    items = _rows(
        db,
        "SELECT c.ordinal, m.message_id, m.token_count, m.created_at FROM context_items c JOIN messages m USING"
        " (message_id) WHERE c.conversation_id = ? ORDER BY c.ordinal LIMIT ?",
        conversation_id,
        most,
    )
    content = "The other program says: berths, ferries and what they cost."
    db.execute(
        "INSERT INTO summaries (summary_id, conversation_id, kind, depth, content, token_count, earliest_at, latest_at,"
        " descendant_count, descendant_token_count, source_message_token_count, file_ids, model)"
        " VALUES (?, ?, 'leaf', 0, ?, 15, strftime('%Y-%m-%dT%H:%M:%fZ', ?), strftime('%Y-%m-%dT%H:%M:%fZ', ?),"
        " 0, 0, ?, '[]', 'fake-1')",
        (summary_id, conversation_id, content, min(row[3] for row in items), max(row[3] for row in items),
         sum(row[2] for row in items)),
    )  # fmt: skip
    for n, row in enumerate(items):
        db.execute("INSERT INTO summary_messages VALUES (?, ?, ?)", (summary_id, row[1], n))
    _replace(db, conversation_id, items[0][0], items[-1][0], summary_id)
    if _rows(db, "SELECT 1 FROM sqlite_master WHERE name = 'summaries_fts'"):
        db.execute("INSERT INTO summaries_fts (summary_id, content) VALUES (?, ?)", (summary_id, content))
    return summary_id


def new(db: apsw.Connection, conversation_id: int, retain_depth: int, at: str | None) -> None:
    """It clears a context but for deep summaries, and says when, where it has a state for the conversation."""
    db.execute(
        "DELETE FROM context_items WHERE conversation_id = ? AND (item_type = 'message' OR summary_id IN"
        " (SELECT summary_id FROM summaries WHERE depth < ?))",
        (conversation_id, retain_depth),
    )
    if at is not None:
        db.execute(
            "INSERT INTO conversation_bootstrap_state (conversation_id, session_file_path, last_seen_size,"
            " last_seen_mtime_ms, last_processed_offset, soft_reset_pruned_at)"
            " VALUES (?, '/home/user/s.jsonl', 0, 0, 0, ?)"
            " ON CONFLICT (conversation_id) DO UPDATE SET soft_reset_pruned_at = excluded.soft_reset_pruned_at",
            (conversation_id, at),
        )


def say(db: apsw.Connection, conversation_id: int, text: str) -> None:
    """It stores a message of the user."""
    (seq,) = _rows(db, "SELECT max(seq) + 1 FROM messages WHERE conversation_id = ?", conversation_id)[0]
    db.execute(
        "INSERT INTO messages (conversation_id, seq, role, content, token_count) VALUES (?, ?, 'user', ?, ?)",
        (conversation_id, seq, text, -(-len(text) // 4)),
    )
    db.execute(
        "INSERT INTO context_items (conversation_id, ordinal, item_type, message_id)"
        " SELECT ?, coalesce(max(ordinal), -1) + 1, 'message',"
        " last_insert_rowid() FROM context_items WHERE conversation_id = ?",
        (conversation_id, conversation_id),
    )


def rewrite(db: apsw.Connection, summary_id: str) -> None:
    """Its doctor writes a summary anew: text, tokens, its own search table; nothing else."""
    content = "Written anew by the other program's doctor: the ferries and their berths."
    db.execute("UPDATE summaries SET content = ?, token_count = 19 WHERE summary_id = ?", (content, summary_id))
    db.execute("DELETE FROM summaries_fts WHERE summary_id = ?", (summary_id,))
    db.execute("INSERT INTO summaries_fts (summary_id, content) VALUES (?, ?)", (summary_id, content))


def newer_tables(db: apsw.Connection) -> None:
    """Tables that lossless-claw 1.0 adds, as far as they concern what we do."""
    db.execute(
        "CREATE TABLE pending_compaction_batches (batch_id TEXT PRIMARY KEY, conversation_id INTEGER NOT NULL,"
        " status TEXT NOT NULL DEFAULT 'planning', compactable_start_ordinal INTEGER NOT NULL,"
        " compactable_end_ordinal INTEGER NOT NULL, updated_at TEXT NOT NULL DEFAULT (datetime('now')));"
        "CREATE TABLE turn_advancements (advancement_key TEXT PRIMARY KEY, payload_hash TEXT NOT NULL,"
        " session_id TEXT NOT NULL, session_key TEXT, admission_entry_id TEXT NOT NULL,"
        " terminal_entry_id TEXT NOT NULL, message_count INTEGER NOT NULL,"
        " committed_at TEXT NOT NULL DEFAULT (datetime('now')))"
    )
