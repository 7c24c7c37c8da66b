"""Small databases as lossless-claw wrote them at several ages: what came later is missing.

Every age holds the same conversation: a question, a tool call whose parts keep the raw blocks, a result that came
as plain text, an answer, two leaves and a condensed summary over them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import apsw

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

_NOW = "TEXT NOT NULL DEFAULT (datetime('now'))"


@dataclass(frozen=True)
class Age:
    """What a file of that time has: columns beyond the first ones, tables, its key index, its search tables."""

    conversations: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    summaries: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    key_index: str | None = None
    search: tuple[str, ...] = ()
    steps: bool = False
    wal: bool = False


_GROWN = ("conversations", "messages", "summaries")
_KEYED = ("session_key TEXT",)
_ACTIVE = ("active INTEGER NOT NULL DEFAULT 1", "archived_at TEXT")
_DEPTHS = ("depth INTEGER NOT NULL DEFAULT 0",)
_SPANS = (
    "earliest_at TEXT",
    "latest_at TEXT",
    "descendant_count INTEGER NOT NULL DEFAULT 0",
    "descendant_token_count INTEGER NOT NULL DEFAULT 0",
    "source_message_token_count INTEGER NOT NULL DEFAULT 0",
    "model TEXT NOT NULL DEFAULT 'unknown'",
)
_OLD_INDEX = "CREATE UNIQUE INDEX conversations_session_key_idx ON conversations (session_key)"
_ACTIVE_INDEX = (
    "CREATE UNIQUE INDEX conversations_active_session_key_idx ON conversations (session_key)"
    " WHERE session_key IS NOT NULL AND active = 1"
)
_BOOTSTRAP = (
    "CREATE TABLE conversation_bootstrap_state (conversation_id INTEGER PRIMARY KEY"
    " REFERENCES conversations (conversation_id) ON DELETE CASCADE, session_file_path TEXT NOT NULL,"
    " last_seen_size INTEGER NOT NULL, last_seen_mtime_ms INTEGER NOT NULL, last_processed_offset INTEGER NOT NULL,"
    f" last_processed_entry_hash TEXT, updated_at {_NOW})"
)
_STEPS = (
    "CREATE TABLE lcm_migration_state (step_name TEXT NOT NULL, algorithm_version INTEGER NOT NULL,"
    f" completed_at {_NOW}, PRIMARY KEY (step_name, algorithm_version))"
)
_ADVANCEMENTS = (
    "CREATE TABLE turn_advancements (advancement_key TEXT PRIMARY KEY, payload_hash TEXT NOT NULL,"
    " session_id TEXT NOT NULL, session_key TEXT, admission_entry_id TEXT NOT NULL, terminal_entry_id TEXT NOT NULL,"
    f" message_count INTEGER NOT NULL, committed_at {_NOW})"
)
_SEARCH = (
    "CREATE VIRTUAL TABLE messages_fts USING fts5(content, tokenize='porter unicode61')",
    "CREATE VIRTUAL TABLE summaries_fts USING fts5(summary_id UNINDEXED, content, tokenize='porter unicode61')",
)
_SEARCH_CJK = ("CREATE VIRTUAL TABLE summaries_fts_cjk USING fts5(summary_id UNINDEXED, content, tokenize='trigram')",)

AGES: dict[str, Age] = {
    "the first tables": Age(search=_SEARCH),
    "with session keys": Age(_KEYED, summaries=_DEPTHS, key_index=_OLD_INDEX, search=_SEARCH),
    "with spans and a checkpoint": Age(
        (*_KEYED, "bootstrapped_at TEXT"),
        summaries=_DEPTHS + _SPANS,
        tables=(_BOOTSTRAP,),
        key_index=_OLD_INDEX,
        search=_SEARCH,
        wal=True,
    ),
    "with archived conversations and identities": Age(
        (*_KEYED, *_ACTIVE, "bootstrapped_at TEXT"),
        ("identity_hash TEXT", "large_content TEXT"),
        _DEPTHS + _SPANS,
        (_BOOTSTRAP, _STEPS),
        _ACTIVE_INDEX,
        _SEARCH + _SEARCH_CJK,
        wal=True,
    ),
    "with entry ids, steps and advancements": Age(
        (*_KEYED, *_ACTIVE, "archive_cause TEXT", "bootstrapped_at TEXT"),
        ("identity_hash TEXT", "large_content TEXT", "transcript_entry_id TEXT", "stable_event_key TEXT"),
        _DEPTHS + _SPANS,
        (_STEPS, _ADVANCEMENTS),
        _ACTIVE_INDEX,
        _SEARCH + _SEARCH_CJK,
        steps=True,
        wal=True,
    ),
}

_FIRST_TABLES = """
CREATE TABLE conversations (
  conversation_id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, title TEXT,
  created_at {now}, updated_at {now} {conversations});
CREATE TABLE messages (
  message_id INTEGER PRIMARY KEY AUTOINCREMENT,
  conversation_id INTEGER NOT NULL REFERENCES conversations(conversation_id) ON DELETE CASCADE,
  seq INTEGER NOT NULL, role TEXT NOT NULL CHECK (role IN ('system', 'user', 'assistant', 'tool')),
  content TEXT NOT NULL, token_count INTEGER NOT NULL, created_at {now} {messages}, UNIQUE (conversation_id, seq));
CREATE TABLE summaries (
  summary_id TEXT PRIMARY KEY,
  conversation_id INTEGER NOT NULL REFERENCES conversations(conversation_id) ON DELETE CASCADE,
  kind TEXT NOT NULL CHECK (kind IN ('leaf', 'condensed')), content TEXT NOT NULL, token_count INTEGER NOT NULL,
  created_at {now}, file_ids TEXT NOT NULL DEFAULT '[]' {summaries});
CREATE TABLE message_parts (
  part_id TEXT PRIMARY KEY, message_id INTEGER NOT NULL REFERENCES messages(message_id) ON DELETE CASCADE,
  session_id TEXT NOT NULL, part_type TEXT NOT NULL CHECK (part_type IN (
    'text', 'reasoning', 'tool', 'patch', 'file', 'subtask', 'compaction', 'step_start', 'step_finish',
    'snapshot', 'agent', 'retry')),
  ordinal INTEGER NOT NULL, text_content TEXT, is_ignored INTEGER, is_synthetic INTEGER, tool_call_id TEXT,
  tool_name TEXT, tool_status TEXT, tool_input TEXT, tool_output TEXT, tool_error TEXT, tool_title TEXT,
  patch_hash TEXT, patch_files TEXT, file_mime TEXT, file_name TEXT, file_url TEXT, subtask_prompt TEXT,
  subtask_desc TEXT, subtask_agent TEXT, step_reason TEXT, step_cost REAL, step_tokens_in INTEGER,
  step_tokens_out INTEGER, snapshot_hash TEXT, compaction_auto INTEGER, metadata TEXT, UNIQUE (message_id, ordinal));
CREATE TABLE summary_messages (
  summary_id TEXT NOT NULL REFERENCES summaries(summary_id) ON DELETE CASCADE,
  message_id INTEGER NOT NULL REFERENCES messages(message_id) ON DELETE RESTRICT,
  ordinal INTEGER NOT NULL, PRIMARY KEY (summary_id, message_id));
CREATE TABLE summary_parents (
  summary_id TEXT NOT NULL REFERENCES summaries(summary_id) ON DELETE CASCADE,
  parent_summary_id TEXT NOT NULL REFERENCES summaries(summary_id) ON DELETE RESTRICT,
  ordinal INTEGER NOT NULL, PRIMARY KEY (summary_id, parent_summary_id));
CREATE TABLE context_items (
  conversation_id INTEGER NOT NULL REFERENCES conversations(conversation_id) ON DELETE CASCADE,
  ordinal INTEGER NOT NULL, item_type TEXT NOT NULL CHECK (item_type IN ('message', 'summary')),
  message_id INTEGER REFERENCES messages(message_id) ON DELETE RESTRICT,
  summary_id TEXT REFERENCES summaries(summary_id) ON DELETE RESTRICT, created_at {now},
  PRIMARY KEY (conversation_id, ordinal),
  CHECK ((item_type = 'message' AND message_id IS NOT NULL AND summary_id IS NULL)
      OR (item_type = 'summary' AND summary_id IS NOT NULL AND message_id IS NULL)));
CREATE TABLE large_files (
  file_id TEXT PRIMARY KEY,
  conversation_id INTEGER NOT NULL REFERENCES conversations(conversation_id) ON DELETE CASCADE,
  file_name TEXT, mime_type TEXT, byte_size INTEGER, storage_uri TEXT NOT NULL, exploration_summary TEXT,
  created_at {now});
"""


def _first_tables(age: Age) -> str:
    added = {name: "".join(f", {column}" for column in getattr(age, name)) for name in _GROWN}
    return _FIRST_TABLES.format(now=_NOW, **added)


#: The raw block of the tool call, as upstream keeps it in the metadata of a part.
CALL = {"type": "toolCall", "id": "exec:1", "name": "read", "arguments": {"path": "config/prod.yaml"}}
TEXTS = ("where does the proxy listen", "", "proxy_port: 8443", "It listens on 8443.", "thanks", "You are welcome.")
ROLES = ("user", "assistant", "tool", "assistant", "user", "assistant")
_TOKENS = (7, 20, 5, 5, 2, 4)


def make(path: Path, age: Age) -> None:
    """Write the conversation as a program of that age would have."""
    connection = apsw.Connection(str(path))
    if age.wal:
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.execute("PRAGMA foreign_keys = ON")
    with connection:
        for statement in (_first_tables(age), *age.tables, *age.search, *filter(None, [age.key_index])):
            connection.execute(statement)
        _fill(connection, age)
    connection.close()


def _insert(connection: apsw.Connection, table: str, columns: str, rows: Iterable[Sequence[Any]]) -> None:
    places = ", ".join("?" for _ in columns.split(","))
    connection.executemany(f"INSERT INTO {table} ({columns}) VALUES ({places})", rows)


def _fill(connection: apsw.Connection, age: Age) -> None:
    _insert(connection, "conversations", "session_id", [("run-1",)])
    if age.conversations:
        connection.execute("UPDATE conversations SET session_key = 'agent:main:main'")
    rows = zip(range(1, 7), ROLES, TEXTS, _TOKENS, strict=True)
    _insert(
        connection,
        "messages",
        "conversation_id, seq, role, content, token_count, created_at",
        [(1, seq, role, text, tokens, f"2026-01-05 09:00:{seq:02d}") for seq, role, text, tokens in rows],
    )
    _insert(
        connection,
        "message_parts",
        "part_id, message_id, session_id, part_type, ordinal, text_content, metadata",
        [(f"part-{id_}", id_, "run-1", kind, 0, text, json.dumps(known)) for id_, kind, text, known in _parts()],
    )
    summaries = [("sum_leaf1", "leaf", "the proxy is on 8443"), ("sum_leaf2", "leaf", "thanks were given")]
    _insert(
        connection,
        "summaries",
        "summary_id, conversation_id, kind, content, token_count",
        [(id_, 1, kind, text, 3) for id_, kind, text in [*summaries, ("sum_top", "condensed", "proxy, thanks")]],
    )
    links = [("sum_leaf1", 1, 0), ("sum_leaf1", 2, 1), ("sum_leaf1", 3, 2), ("sum_leaf2", 4, 0)]
    _insert(connection, "summary_messages", "summary_id, message_id, ordinal", links)
    parents = [("sum_top", "sum_leaf1", 0), ("sum_top", "sum_leaf2", 1)]
    _insert(connection, "summary_parents", "summary_id, parent_summary_id, ordinal", parents)
    items = [(1, 0, "summary", None, "sum_top"), (1, 1, "message", 5, None), (1, 2, "message", 6, None)]
    _insert(connection, "context_items", "conversation_id, ordinal, item_type, message_id, summary_id", items)
    if age.search:
        _insert(connection, "messages_fts", "rowid, content", [(n, text) for n, text in enumerate(TEXTS, 1) if text])
        for (table,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE name GLOB 'summaries_fts*'"
        ).fetchall():
            if table in ("summaries_fts", "summaries_fts_cjk"):
                connection.execute(
                    f"INSERT INTO {table} (summary_id, content) SELECT summary_id, content FROM summaries"
                )
    if age.steps:
        steps = [("backfillSummaryDepths", 1), ("backfillSummaryMetadata", 1), ("backfillToolCallColumns", 1)]
        steps.append(("repairOpenClawMetadataIdentityState", 2))
        _insert(connection, "lcm_migration_state", "step_name, algorithm_version", steps)
        _as_backfilled(connection)


def _parts() -> list[tuple[int, str, str | None, dict[str, Any]]]:
    user, assistant = {"originalRole": "user"}, {"originalRole": "assistant"}
    result = {"originalRole": "toolResult", "toolCallId": "exec:1", "toolName": "read", "isError": False}
    return [
        (1, "text", TEXTS[0], user),
        (2, "tool", None, assistant | {"rawType": "toolCall", "raw": CALL}),
        (3, "text", TEXTS[2], result),
        (4, "text", TEXTS[3], assistant | {"rawType": "text", "raw": {"type": "text", "text": TEXTS[3]}}),
        (5, "text", TEXTS[4], user),
        (6, "text", TEXTS[5], assistant),
    ]


def _as_backfilled(connection: apsw.Connection) -> None:
    """What the recorded steps have left behind."""
    for statement in (
        "UPDATE summaries SET depth = 1, descendant_count = 2, descendant_token_count = 6,"
        " source_message_token_count = 37 WHERE kind = 'condensed'",
        "UPDATE summaries SET source_message_token_count = 32 WHERE summary_id = 'sum_leaf1'",
        "UPDATE summaries SET source_message_token_count = 5 WHERE summary_id = 'sum_leaf2'",
        "UPDATE message_parts SET tool_call_id = 'exec:1', tool_name = 'read' WHERE message_id IN (2, 3)",
        'UPDATE message_parts SET tool_input = \'{"path":"config/prod.yaml"}\' WHERE message_id = 2',
    ):
        connection.execute(statement)
