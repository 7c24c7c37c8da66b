-- Copying summary graphs into another conversation, and merging conversations.

-- name: summary_digests
-- The texts of a conversation's summaries, to detect copies.
SELECT summary_id, content FROM summaries WHERE conversation_id = :conversation_id;

-- name: next_id
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'messages'), 0) + 1;

-- name: copy_messages
-- `places` is a list of [old id, new id, new seq].
INSERT INTO messages (message_id, conversation_id, seq, role, content, token_count, identity_hash,
                      openclaw_sender_metadata, created_at, large_content)
SELECT j.value ->> 1, :conversation_id, j.value ->> 2, m.role, m.content, m.token_count, m.identity_hash,
       m.openclaw_sender_metadata, m.created_at, m.large_content
  FROM json_each(:places) j JOIN messages m ON m.message_id = j.value ->> 0;

-- name: copy_parts
INSERT INTO message_parts (part_id, message_id, session_id, part_type, ordinal, text_content, tool_call_id, tool_name,
                           tool_input, tool_output, metadata)
SELECT (j.value ->> 1) || '.' || p.ordinal, j.value ->> 1, '', p.part_type, p.ordinal, p.text_content, p.tool_call_id,
       p.tool_name, p.tool_input, p.tool_output, p.metadata
  FROM json_each(:places) j JOIN message_parts p ON p.message_id = j.value ->> 0;

-- name: copy_extras
INSERT INTO message_extras (message_id, fingerprint, digest, claimed, preamble, format, skeleton, budget_tokens)
SELECT j.value ->> 1, x.fingerprint, NULL, 1, 0, x.format, x.skeleton, x.budget_tokens
  FROM json_each(:places) j JOIN message_extras x ON x.message_id = j.value ->> 0;

-- name: copy_hidden
-- A hidden item is hidden in its copy, too, for the same cause.
INSERT INTO hidden_items (conversation_id, item, cause, at)
SELECT :conversation_id, j.value ->> 1, h.cause, h.at FROM json_each(:places) j
  JOIN messages m ON m.message_id = j.value ->> 0
  JOIN hidden_items h ON h.conversation_id = m.conversation_id AND h.item = m.message_id;

-- name: file_texts
SELECT m.content, m.large_content FROM messages m WHERE m.message_id = :message_id;

-- name: set_file_texts
UPDATE messages SET content = :content, large_content = :file_id WHERE message_id = :message_id;

-- name: part_texts
SELECT part_id, text_content, tool_output, metadata FROM message_parts WHERE message_id = :message_id;

-- name: set_part_texts
UPDATE message_parts SET text_content = :text, tool_output = :output, metadata = :metadata WHERE part_id = :part_id;

-- name: files_of_messages
-- Files of messages: in a mark, or as the reference to a payload that was moved out.
SELECT m.message_id, m.large_content FROM messages m
 WHERE m.message_id IN (SELECT value FROM json_each(:ids)) AND m.large_content IS NOT NULL
UNION ALL
SELECT p.message_id, p.metadata FROM message_parts p
 WHERE p.message_id IN (SELECT value FROM json_each(:ids)) AND instr(coalesce(p.metadata, ''), '"restore":') > 0;

-- name: delete_context_messages
DELETE FROM context_items WHERE conversation_id = :conversation_id AND message_id IN (SELECT value FROM json_each(:ids));

-- name: delete_hidden
DELETE FROM hidden_items WHERE conversation_id = :conversation_id AND item IN (SELECT value FROM json_each(:ids));

-- name: delete_context_summaries
DELETE FROM context_items WHERE conversation_id = :conversation_id AND summary_id IN (SELECT value FROM json_each(:ids));

-- name: delete_upstream_messages
DELETE FROM messages_fts WHERE rowid IN (SELECT value FROM json_each(:ids));

-- name: delete_trigrams
DELETE FROM message_trigrams WHERE rowid IN (SELECT value FROM json_each(:ids));

-- name: lend_index
-- SQLite looks up references to each deleted message; without an index it scans the table each time.
CREATE INDEX IF NOT EXISTS lossless_moving_idx ON context_items (message_id);

-- name: return_index
DROP INDEX IF EXISTS lossless_moving_idx;

-- name: delete_messages
DELETE FROM messages WHERE message_id IN (SELECT value FROM json_each(:ids));

-- name: split_keys
-- Session keys with one active conversation and archived ones with messages.
SELECT a.session_key, a.conversation_id, s.conversation_id, s.archive_cause,
       (SELECT count(*) FROM messages m WHERE m.conversation_id = s.conversation_id),
       (SELECT max(julianday(m.created_at)) FROM messages m WHERE m.conversation_id = s.conversation_id)
       > (SELECT min(julianday(m.created_at)) FROM messages m WHERE m.conversation_id = a.conversation_id)
  FROM conversations a JOIN conversations s ON s.session_key = a.session_key AND s.active = 0
 WHERE a.active = 1 AND a.session_key IS NOT NULL AND (:key IS NULL OR a.session_key = :key)
   AND coalesce(s.archive_cause, '') NOT IN ('quarantined', 'refused')
   AND EXISTS (SELECT 1 FROM messages m WHERE m.conversation_id = s.conversation_id)
 ORDER BY a.session_key, s.created_at, s.conversation_id;

-- name: snapshot
-- What of a conversation moves; records are those of a transcript that the other conversations do not have.
SELECT json_object('id', :conversation_id, 'offset', :offset,
    'last', (SELECT coalesce(max(seq), 0) FROM messages WHERE conversation_id = :conversation_id),
    'context', json((SELECT json_group_array(json_array(ordinal, coalesce(message_id, summary_id))) FROM (
        SELECT * FROM context_items WHERE conversation_id = :conversation_id ORDER BY ordinal))),
    'summaries', json((SELECT json_group_array(summary_id) FROM (
        SELECT summary_id FROM summaries WHERE conversation_id = :conversation_id ORDER BY summary_id))),
    'files', json((SELECT json_group_array(file_id) FROM (
        SELECT file_id FROM large_files WHERE conversation_id = :conversation_id ORDER BY file_id))),
    'pins', json((SELECT json_group_array(pin_id) FROM (
        SELECT pin_id FROM pins WHERE conversation_id = :conversation_id ORDER BY pin_id))),
    'hidden', json((SELECT json_group_array(item) FROM hidden_items WHERE conversation_id = :conversation_id)),
    'records', json((SELECT json_group_array(record_key) FROM transcript_records
        WHERE conversation_id = :conversation_id AND record_key NOT IN (
              SELECT record_key FROM transcript_records WHERE conversation_id IN (SELECT value FROM json_each(:others))))),
    'briefs', json((SELECT json_group_array(json_array(brief_id, status)) FROM (
        SELECT brief_id, status FROM focus_briefs WHERE conversation_id = :conversation_id ORDER BY brief_id))));

-- name: move_messages
-- Moves a range to another conversation, or to other seqs of its own. Seqs are unique: they are set negative first.
UPDATE messages SET conversation_id = :to, seq = -(seq + :by)
 WHERE conversation_id = :from AND seq BETWEEN :first AND :last;

-- name: shift_briefs
-- The newest message recorded in one of our briefs is renumbered, too.
UPDATE focus_briefs SET covered_message_seq = covered_message_seq + :by,
       raw_result_json = CASE WHEN json_valid(raw_result_json) AND json_type(raw_result_json, '$.lastSeq') = 'integer'
       THEN json_set(raw_result_json, '$.lastSeq', (raw_result_json ->> '$.lastSeq') + :by) ELSE raw_result_json END
 WHERE conversation_id = :conversation_id;

-- name: shift_records
UPDATE transcript_records SET after_seq = after_seq + :by WHERE conversation_id = :conversation_id;

-- name: right_places
UPDATE messages SET seq = -seq WHERE conversation_id = :conversation_id AND seq < 0;

-- name: clashing_ids
-- Messages of a source whose host ids the target also uses.
SELECT s.message_id, s.transcript_entry_id, s.stable_event_key FROM messages s
 WHERE s.conversation_id = :source AND (
       EXISTS (SELECT 1 FROM messages t WHERE t.conversation_id IN (SELECT value FROM json_each(:others)) AND t.transcript_entry_id = s.transcript_entry_id)
    OR EXISTS (SELECT 1 FROM messages t WHERE t.conversation_id IN (SELECT value FROM json_each(:others)) AND t.stable_event_key = s.stable_event_key));

-- name: set_ids
UPDATE messages SET transcript_entry_id = ?2, stable_event_key = ?3 WHERE message_id = ?1;

-- name: move_summaries
UPDATE summaries SET conversation_id = :conversation_id
 WHERE conversation_id = :from AND summary_id IN (SELECT value FROM json_each(:ids));

-- name: move_files
UPDATE large_files SET conversation_id = :conversation_id
 WHERE conversation_id = :from AND file_id IN (SELECT value FROM json_each(:ids));

-- name: move_briefs
UPDATE focus_briefs SET conversation_id = :conversation_id
 WHERE conversation_id = :from AND brief_id IN (SELECT value FROM json_each(:ids));

-- name: retire_briefs
-- Only the active conversation's own brief stays active.
UPDATE focus_briefs SET status = 'superseded' WHERE status IN ('active', 'draft') AND brief_id IN (SELECT value FROM json_each(:ids));

-- name: set_brief_status
UPDATE focus_briefs SET status = ? WHERE brief_id = ?;

-- name: move_pins
UPDATE pins SET conversation_id = :conversation_id
 WHERE conversation_id = :from AND pin_id IN (SELECT value FROM json_each(:ids));

-- name: move_hidden
UPDATE hidden_items SET conversation_id = :conversation_id
 WHERE conversation_id = :from AND item IN (SELECT value FROM json_each(:ids));

-- name: move_keys
UPDATE OR IGNORE turn_keys SET conversation_id = :conversation_id WHERE conversation_id = :from;

-- name: state.last_windows
DELETE FROM last_windows WHERE conversation_id = :conversation_id;

-- name: state.stubborn_chunks
DELETE FROM stubborn_chunks WHERE conversation_id = :conversation_id;

-- name: state.history_budgets
DELETE FROM history_budgets WHERE conversation_id = :conversation_id;

-- name: state.prompt_evidence
DELETE FROM prompt_evidence WHERE conversation_id = :conversation_id;

-- name: state.bootstrap
DELETE FROM conversation_bootstrap_state WHERE conversation_id = :conversation_id;

-- name: state.maintenance
DELETE FROM conversation_compaction_maintenance WHERE conversation_id = :conversation_id;

-- name: state.telemetry
DELETE FROM conversation_compaction_telemetry WHERE conversation_id = :conversation_id;

-- name: move_records
UPDATE transcript_records SET conversation_id = :to, after_seq = after_seq + :by
 WHERE conversation_id = :from AND record_key IN (SELECT value FROM json_each(:keys));

-- name: state.transcript
DELETE FROM transcript_state WHERE conversation_id = :conversation_id;

-- name: state.turn_keys
DELETE FROM turn_keys WHERE conversation_id = :conversation_id;

-- name: request_sweep
INSERT INTO conversation_compaction_maintenance (conversation_id, pending, requested_at, reason, updated_at)
VALUES (:conversation_id, 1, :now, :reason, :now)
    ON CONFLICT (conversation_id) DO UPDATE SET
       pending = 1, reason = iif(pending = 1, reason, excluded.reason), requested_at = iif(pending = 1, requested_at, excluded.requested_at),
       maintenance_revision = maintenance_revision + 1, updated_at = excluded.updated_at;
