-- Permanent removal of texts: where they are stored, and which hashes and index segments remain.

-- name: message_ids
SELECT message_id FROM messages WHERE message_id > :after ORDER BY message_id LIMIT :limit;

-- name: of_conversations
SELECT message_id FROM messages WHERE conversation_id IN (SELECT value FROM json_each(:ids)) ORDER BY message_id;

-- name: fingerprints
SELECT m.message_id, m.conversation_id, x.fingerprint FROM messages m JOIN message_extras x USING (message_id)
 WHERE m.message_id IN (SELECT value FROM json_each(:ids));

-- name: alike
-- The messages that have one of these fingerprints.
SELECT m.message_id, m.conversation_id, x.fingerprint FROM message_extras x JOIN messages m USING (message_id)
 WHERE x.fingerprint IN (SELECT unhex(value) FROM json_each(:prints));

-- name: tables
-- Tables with rows, ours and other programs'; whether each has row ids.
SELECT name, wr = 0 FROM pragma_table_list
 WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY name;

-- name: every_table
-- The same with shadow tables of search indexes.
SELECT name FROM pragma_table_list
 WHERE schema = 'main' AND type IN ('table', 'shadow') AND name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY name;

-- name: columns
SELECT name, pk FROM pragma_table_info(:table) ORDER BY cid;

-- name: referring
-- Columns that reference rows: not text.
SELECT f."from" FROM pragma_foreign_key_list(:table) f
UNION
SELECT i.name FROM pragma_index_list(:table) l, pragma_index_info(l.name) i WHERE l."unique" = 1
UNION
SELECT name FROM pragma_table_info(:table) WHERE pk > 0;

-- name: records
SELECT conversation_id, record_key, kind, record FROM transcript_records;

-- name: set_record
-- Of two that are equal without the words, one stays.
UPDATE OR REPLACE transcript_records SET record = :record, record_key = :fresh WHERE conversation_id = :conversation_id AND record_key = :key;

-- name: drop_records
DELETE FROM transcript_records WHERE conversation_id IN (SELECT value FROM json_each(:ids));

-- name: forget_key_digests
-- The words of a key are removed; the key stays.
UPDATE turn_keys SET digest = 0 WHERE conversation_id IN (SELECT value FROM json_each(:ids));

-- name: drop_second_keys
-- Names of batches whose key was reused with other words: they contain a digest of those.
DELETE FROM turn_keys WHERE instr(turn_key, char(0)) > 0 AND conversation_id IN (SELECT value FROM json_each(:ids));

-- name: has_advancements
SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'turn_advancements';

-- name: forget_advancements
-- lossless-claw still recognises these turns by their keys, but not by their content.
UPDATE turn_advancements SET payload_hash = lower(hex(randomblob(32))) WHERE EXISTS (
    SELECT 1 FROM conversations c WHERE c.conversation_id IN (SELECT value FROM json_each(:ids))
       AND (turn_advancements.session_key = c.session_key OR turn_advancements.session_id = c.session_id));

-- name: last_entries
SELECT conversation_id, last_processed_entry_id FROM conversation_bootstrap_state
 WHERE last_processed_entry_id IS NOT NULL AND conversation_id IN (SELECT value FROM json_each(:ids));

-- name: set_last_entry
UPDATE conversation_bootstrap_state SET last_processed_entry_id = :entry_id WHERE conversation_id = :id;

-- name: entries
SELECT message_id, transcript_entry_id FROM messages
 WHERE transcript_entry_id IS NOT NULL AND message_id IN (SELECT value FROM json_each(:ids));

-- name: set_entry
UPDATE OR IGNORE messages SET transcript_entry_id = :entry_id WHERE message_id = :id;

-- name: drop_payload_digests
DELETE FROM row_digests WHERE name = 'payloads' AND row_key NOT IN (SELECT file_id FROM large_files);

-- name: forget_entry_hashes
UPDATE conversation_bootstrap_state SET last_processed_entry_hash = NULL
 WHERE conversation_id IN (SELECT value FROM json_each(:ids));

-- name: forget_context_tokens
UPDATE ingest_state SET context_tokens = NULL WHERE conversation_id IN (SELECT value FROM json_each(:ids));

-- name: empty_briefs
UPDATE focus_briefs SET content = :mark, prompt = :mark, raw_result_json = NULL, error = NULL,
       status = iif(status = 'active', 'inactive', status)
 WHERE conversation_id IN (SELECT value FROM json_each(:ids));

-- name: empty_titles
-- Titles are often the first words of a conversation.
UPDATE conversations SET title = :mark WHERE title IS NOT NULL AND conversation_id IN (SELECT value FROM json_each(:ids));

-- name: former
SELECT log_id, summary_id, state FROM former_summaries WHERE summary_id IN (SELECT value FROM json_each(:ids));

-- name: set_former
UPDATE former_summaries SET state = :state WHERE log_id = :log_id AND summary_id = :summary_id;

-- name: summaries
SELECT summary_id FROM summaries ORDER BY depth, rowid;

-- name: indexes
SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL TABLE%USING fts5%' ORDER BY name;

-- name: pending
SELECT value FROM archive_state WHERE name = 'forgetting';

-- name: set_pending
INSERT INTO archive_state (name, value) VALUES ('forgetting', :value)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: clear_pending
DELETE FROM archive_state WHERE name = 'forgetting';
