-- Remnic's own archive: its tables, schema version 2, and additional tables of ours, which it ignores.

-- name: create.meta
CREATE TABLE IF NOT EXISTS lcm_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);

-- name: create.messages
CREATE TABLE IF NOT EXISTS lcm_messages (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id  TEXT NOT NULL,
    turn_index  INTEGER NOT NULL,
    role        TEXT NOT NULL,
    content     TEXT NOT NULL,
    token_count INTEGER NOT NULL,
    created_at  TEXT NOT NULL,
    metadata    TEXT
);

-- name: create.messages_session
CREATE INDEX IF NOT EXISTS idx_lcm_messages_session ON lcm_messages (session_id, turn_index);

-- name: create.parts
CREATE TABLE IF NOT EXISTS lcm_message_parts (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    message_id INTEGER NOT NULL REFERENCES lcm_messages (id) ON DELETE CASCADE,
    ordinal    INTEGER NOT NULL,
    kind       TEXT NOT NULL,
    payload    TEXT NOT NULL,
    tool_name  TEXT,
    file_path  TEXT,
    created_at TEXT NOT NULL
);

-- name: create.parts_message
CREATE INDEX IF NOT EXISTS idx_lcm_message_parts_msg ON lcm_message_parts (message_id, ordinal);

-- name: create.parts_tool
CREATE INDEX IF NOT EXISTS idx_lcm_message_parts_tool ON lcm_message_parts (tool_name);

-- name: create.parts_file
CREATE INDEX IF NOT EXISTS idx_lcm_message_parts_file ON lcm_message_parts (file_path);

-- name: create.nodes
CREATE TABLE IF NOT EXISTS lcm_summary_nodes (
    id           TEXT PRIMARY KEY,
    session_id   TEXT NOT NULL,
    depth        INTEGER NOT NULL,
    parent_id    TEXT REFERENCES lcm_summary_nodes (id),
    summary_text TEXT NOT NULL,
    token_count  INTEGER NOT NULL,
    msg_start    INTEGER NOT NULL,
    msg_end      INTEGER NOT NULL,
    escalation   INTEGER NOT NULL DEFAULT 0,
    created_at   TEXT NOT NULL
);

-- name: create.nodes_session
CREATE INDEX IF NOT EXISTS idx_lcm_summary_session ON lcm_summary_nodes (session_id, depth);

-- name: create.nodes_range
CREATE INDEX IF NOT EXISTS idx_lcm_summary_range ON lcm_summary_nodes (session_id, msg_start, msg_end);

-- name: create.events
CREATE TABLE IF NOT EXISTS lcm_compaction_events (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id    TEXT NOT NULL,
    fired_at      TEXT NOT NULL,
    msg_before    INTEGER NOT NULL,
    tokens_before INTEGER NOT NULL,
    tokens_after  INTEGER NOT NULL
);

-- name: create.messages_fts
CREATE VIRTUAL TABLE IF NOT EXISTS lcm_messages_fts USING fts5 (content, content='lcm_messages', content_rowid='id');

-- name: create.summaries_fts
CREATE VIRTUAL TABLE IF NOT EXISTS lcm_summaries_fts USING fts5 (summary_text, content='lcm_summary_nodes', content_rowid='rowid');

-- name: beside.edges
-- Every source of every condensed summary, as Remnic's tree allows one parent only.
CREATE TABLE IF NOT EXISTS lcm_x_edges (
    summary_id TEXT NOT NULL, source_id TEXT NOT NULL, ordinal INTEGER NOT NULL, PRIMARY KEY (summary_id, source_id)
) WITHOUT ROWID;

-- name: beside.summary_messages
-- The messages of a leaf, as a range may include those of another conversation.
CREATE TABLE IF NOT EXISTS lcm_x_summary_messages (
    summary_id TEXT NOT NULL, message_id INTEGER NOT NULL, ordinal INTEGER NOT NULL, PRIMARY KEY (summary_id, ordinal)
) WITHOUT ROWID;

-- name: beside.source_rows
-- Columns that Remnic's tables do not have, as JSON.
CREATE TABLE IF NOT EXISTS lcm_x_source_rows (
    kind TEXT NOT NULL, conversation_id TEXT NOT NULL, id TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (kind, conversation_id, id)
) WITHOUT ROWID;

-- name: tables
SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'lcm\_%' ESCAPE '\';

-- name: set_meta
INSERT INTO lcm_meta (key, value) VALUES (:key, :value) ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- name: imported
-- Messages of a session that came from lossless-claw: their source, and their position.
SELECT CAST(json_extract(metadata, '$.conversation_id') AS TEXT), CAST(json_extract(metadata, '$.source_seq') AS TEXT), id, turn_index
  FROM lcm_messages
 WHERE session_id = :session_id AND json_valid(metadata) AND json_extract(metadata, '$.conversation_id') IS NOT NULL;

-- name: extent
SELECT coalesce(max(turn_index), -1), coalesce(sum(token_count), 0) FROM lcm_messages WHERE session_id = :session_id;

-- name: newest_message
SELECT coalesce(max(id), 0) FROM lcm_messages;

-- name: newest_node
SELECT coalesce(max(rowid), 0) FROM lcm_summary_nodes;

-- name: add_message
INSERT INTO lcm_messages (session_id, turn_index, role, content, token_count, created_at, metadata, id) VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: index_messages
INSERT INTO lcm_messages_fts (rowid, content) SELECT id, content FROM lcm_messages WHERE id > :after;

-- name: next_message
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'lcm_messages'), 0) + 1;

-- name: parts_there
SELECT message_id, ordinal FROM lcm_message_parts WHERE message_id IN (SELECT value FROM json_each(:ids));

-- name: add_part
INSERT INTO lcm_message_parts (message_id, ordinal, kind, payload, tool_name, file_path, created_at) VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: nodes_there
SELECT id, session_id, parent_id FROM lcm_summary_nodes WHERE id IN (SELECT value FROM json_each(:ids));

-- name: add_node
INSERT INTO lcm_summary_nodes (id, session_id, depth, parent_id, summary_text, token_count, msg_start, msg_end, escalation, created_at)
VALUES (:id, :session_id, :depth, :parent_id, :text, :tokens, :start, :end, :escalation, :created_at);

-- name: adopt_node
UPDATE lcm_summary_nodes SET parent_id = :parent_id WHERE id = :id AND parent_id IS NULL;

-- name: index_nodes
INSERT INTO lcm_summaries_fts (rowid, summary_text) SELECT rowid, summary_text FROM lcm_summary_nodes WHERE rowid > :after;

-- name: has_boundary
SELECT 1 FROM lcm_meta WHERE key = :key
UNION ALL
SELECT 1 FROM lcm_compaction_events WHERE session_id = :session_id AND tokens_before = tokens_after LIMIT 1;

-- name: add_event
INSERT INTO lcm_compaction_events (session_id, fired_at, msg_before, tokens_before, tokens_after)
VALUES (:session_id, :fired_at, :msg_before, :tokens, :tokens);

-- name: put_edge
INSERT OR REPLACE INTO lcm_x_edges (summary_id, source_id, ordinal) VALUES (?, ?, ?);

-- name: put_summary_message
INSERT OR REPLACE INTO lcm_x_summary_messages (summary_id, message_id, ordinal) VALUES (?, ?, ?);

-- name: put_source_row
INSERT OR REPLACE INTO lcm_x_source_rows (kind, conversation_id, id, value) VALUES (?, ?, ?, ?);

-- name: clear_source_rows
DELETE FROM lcm_x_source_rows WHERE conversation_id = :conversation_id AND kind NOT IN ('message', 'summary');

-- name: sessions
-- Those that only have summaries come last.
SELECT session_id, sum(is_message) FROM (
    SELECT session_id, 1 AS is_message, id FROM lcm_messages UNION ALL SELECT session_id, 0, NULL FROM lcm_summary_nodes)
 GROUP BY session_id ORDER BY min(id) NULLS LAST, session_id;

-- name: session_rows
SELECT id, turn_index AS turn, role, token_count AS tokens, created_at, metadata FROM lcm_messages WHERE session_id = :session_id ORDER BY turn_index, id;

-- name: contents
SELECT id, content FROM lcm_messages WHERE id IN (SELECT value FROM json_each(:ids));

-- name: parts_of
SELECT message_id, ordinal, kind, payload, tool_name, file_path, created_at FROM lcm_message_parts
 WHERE message_id IN (SELECT value FROM json_each(:ids)) ORDER BY message_id, ordinal, id;

-- name: session_nodes
SELECT id, depth, parent_id, summary_text AS text, token_count AS tokens, msg_start AS start, msg_end AS "end", escalation, created_at
  FROM lcm_summary_nodes WHERE session_id = :session_id ORDER BY depth, msg_start, id;

-- name: edges
SELECT summary_id, source_id FROM lcm_x_edges WHERE summary_id IN (SELECT value FROM json_each(:ids)) ORDER BY summary_id, ordinal;

-- name: summary_messages
SELECT summary_id, message_id FROM lcm_x_summary_messages WHERE summary_id IN (SELECT value FROM json_each(:ids)) ORDER BY summary_id, ordinal;

-- name: source_rows
SELECT kind, id, value FROM lcm_x_source_rows WHERE conversation_id = :conversation_id ORDER BY kind, CAST(id AS INTEGER), id;

-- name: events
SELECT count(*) FROM lcm_compaction_events
 WHERE (tokens_before = tokens_after) IS NOT 1 AND session_id IN (SELECT value FROM json_each(:sessions));
