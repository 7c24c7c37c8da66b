-- What a database of lossless-claw 0.15 has besides the base tables: its own indexes and search tables.

-- name: create.messages_seq
CREATE INDEX messages_conv_seq_idx ON messages (conversation_id, seq);

-- name: create.parts
CREATE INDEX message_parts_message_idx ON message_parts (message_id);

-- name: create.context
CREATE INDEX context_items_conv_idx ON context_items (conversation_id, ordinal);

-- name: create.messages_fts
CREATE VIRTUAL TABLE messages_fts USING fts5 (content, tokenize='porter unicode61');

-- name: create.summaries_fts
CREATE VIRTUAL TABLE summaries_fts USING fts5 (summary_id UNINDEXED, content, tokenize='porter unicode61');

-- name: create.summaries_fts_cjk
CREATE VIRTUAL TABLE summaries_fts_cjk USING fts5 (summary_id UNINDEXED, content, tokenize='trigram');

-- name: integrity
PRAGMA integrity_check;
