-- Digests of rows: which rows were just written (`note` remembers them), their digests, and the digested columns.

-- name: note.messages
CREATE TEMP TRIGGER note_messages AFTER UPDATE OF role, content, token_count, identity_hash, openclaw_sender_metadata, created_at, large_content ON main.messages
BEGIN SELECT note('messages', new.message_id); END;

-- name: note.message_extras
CREATE TEMP TRIGGER note_message_extras AFTER UPDATE OF fingerprint, preamble, format, skeleton, budget_tokens ON main.message_extras
BEGIN SELECT note('messages', new.message_id); END;

-- name: note.reindexed_message
CREATE TEMP TRIGGER note_reindexed_message AFTER UPDATE OF digest ON main.message_extras WHEN length(new.digest) = 8
BEGIN SELECT note('messages', new.message_id); END;

-- name: note.part_change
CREATE TEMP TRIGGER note_part_change AFTER UPDATE ON main.message_parts
BEGIN SELECT note('messages', new.message_id); END;

-- name: note.part_removal
CREATE TEMP TRIGGER note_part_removal AFTER DELETE ON main.message_parts
BEGIN SELECT note('messages', old.message_id); END;

-- name: note.summary_messages_update
-- A source is added together with its summary, or makes others move: either is noted.
CREATE TEMP TRIGGER note_summary_messages_update AFTER UPDATE ON main.summary_messages
BEGIN SELECT note('summaries', json_array(new.summary_id)); END;

-- name: note.summary_messages_delete
CREATE TEMP TRIGGER note_summary_messages_delete AFTER DELETE ON main.summary_messages
BEGIN SELECT note('summaries', json_array(old.summary_id)); END;

-- name: note.summary_parents_update
CREATE TEMP TRIGGER note_summary_parents_update AFTER UPDATE ON main.summary_parents
BEGIN SELECT note('summaries', json_array(new.summary_id)); END;

-- name: note.summary_parents_delete
CREATE TEMP TRIGGER note_summary_parents_delete AFTER DELETE ON main.summary_parents
BEGIN SELECT note('summaries', json_array(old.summary_id)); END;

-- name: note.summary_extras_insert
CREATE TEMP TRIGGER note_summary_extras_insert AFTER INSERT ON main.summary_extras
BEGIN SELECT note('summaries', json_array(new.summary_id)); END;

-- name: note.summary_extras_update
CREATE TEMP TRIGGER note_summary_extras_update AFTER UPDATE OF digest, budget_tokens ON main.summary_extras
BEGIN SELECT note('summaries', json_array(new.summary_id)); END;

-- name: columns
SELECT name FROM pragma_table_info(:table) ORDER BY cid;

-- name: put
INSERT INTO row_digests (name, row_key, digest) VALUES (?, ?, ?)
    ON CONFLICT (name, row_key) DO UPDATE SET digest = excluded.digest;

-- name: drop
DELETE FROM row_digests WHERE name = :name AND row_key = :key;

-- name: set_message
UPDATE message_extras SET digest = ? WHERE message_id = ?;

-- name: messages_without
SELECT message_id FROM message_extras WHERE length(digest) = :half LIMIT :limit;

-- name: versioned
SELECT DISTINCT message_id FROM message_versions WHERE message_id IN (SELECT value FROM json_each(:ids));

-- name: all_known
-- Those of versions are, but for some of older releases, the third part of the digest of their message.
SELECT row_key, digest FROM row_digests WHERE name = :name
UNION ALL
SELECT json_array(message_id), substr(digest, 17) FROM message_extras WHERE :name = 'message_versions' AND length(digest) > 16;

-- name: set_complete
INSERT INTO archive_state (name, value) VALUES (:name, 1) ON CONFLICT (name) DO UPDATE SET value = 1;

-- name: complete
SELECT value FROM archive_state WHERE name = :name;

-- name: page
SELECT message_id FROM message_extras WHERE message_id > :after AND length(digest) > :half ORDER BY message_id LIMIT :limit;

-- name: messages
SELECT m.message_id, CAST(x.digest AS BLOB), m.role, m.content, m.token_count, m.identity_hash, m.openclaw_sender_metadata, m.created_at,
       m.large_content, x.fingerprint, x.preamble, x.format, x.skeleton, x.budget_tokens
  FROM messages m JOIN message_extras x USING (message_id) WHERE m.message_id IN (SELECT value FROM json_each(:ids));

-- name: parts
SELECT message_id, part_id, session_id, part_type, ordinal, text_content, tool_call_id, tool_name, tool_input, tool_output, metadata,
       is_ignored, is_synthetic, tool_status, tool_error, tool_title, patch_hash, patch_files, file_mime, file_name, file_url,
       subtask_prompt, subtask_desc, subtask_agent, step_reason, step_cost, step_tokens_in, step_tokens_out, snapshot_hash,
       compaction_auto
  FROM message_parts WHERE message_id IN (SELECT value FROM json_each(:ids)) ORDER BY message_id, ordinal;

-- name: sources
SELECT k.value, 'm', l.message_id, l.ordinal FROM json_each(:keys) k JOIN summary_messages l ON l.summary_id = k.value ->> 0
UNION ALL
SELECT k.value, 's', p.parent_summary_id, p.ordinal FROM json_each(:keys) k JOIN summary_parents p ON p.summary_id = k.value ->> 0
UNION ALL
SELECT k.value, 'b', x.budget_tokens, 0 FROM json_each(:keys) k JOIN summary_extras x ON x.summary_id = k.value ->> 0
 ORDER BY 1, 2, 4, 3;
