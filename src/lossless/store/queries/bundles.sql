-- Whole conversations as rows: read from a file of any version, written into another. Ids are those of the source file.

-- name: tables
-- Of the file itself, not temporary ones.
SELECT name FROM main.sqlite_master WHERE type = 'table';

-- name: part_columns
SELECT name FROM pragma_table_info('message_parts', 'main');

-- name: conversations
SELECT conversation_id, session_id, session_key, active, archived_at, archive_cause, title, bootstrapped_at, created_at, updated_at
  FROM conversations ORDER BY conversation_id;

-- name: keys
-- What identifies messages; the text only where the identity is not stored.
SELECT message_id, seq, identity_hash, created_at, transcript_entry_id, stable_event_key, token_count, role,
       CASE WHEN coalesce(identity_hash, '') = '' THEN content END AS content
  FROM messages WHERE conversation_id = :conversation_id ORDER BY seq, message_id;

-- name: messages
SELECT m.message_id, m.seq, m.role, m.content, m.token_count, m.identity_hash, m.openclaw_sender_metadata,
       m.transcript_entry_id, m.created_at, m.large_content, m.stable_event_key,
       x.fingerprint, x.claimed, x.preamble, x.format, x.skeleton
  FROM messages m LEFT JOIN message_extras x ON x.message_id = m.message_id
 WHERE m.conversation_id = :conversation_id ORDER BY m.seq, m.message_id;

-- name: versions
SELECT message_id, version_id, digest, lesser, length, base_id, tokens, at, body FROM message_versions
 WHERE message_id IN (SELECT value FROM json_each(:ids)) ORDER BY message_id, version_id;

-- name: summaries
-- One without its own conversation belongs to that of its messages.
SELECT summary_id, kind, depth, content, token_count, earliest_at, latest_at, descendant_count, descendant_token_count,
       source_message_token_count, created_at, file_ids, model
  FROM summaries s
 WHERE s.conversation_id = :conversation_id
    OR (s.conversation_id IS NULL AND :conversation_id = (
        SELECT m.conversation_id FROM summary_messages l JOIN messages m ON m.message_id = l.message_id
         WHERE l.summary_id = s.summary_id LIMIT 1))
 ORDER BY depth, summary_id;

-- name: all_summaries
SELECT summary_id, kind, depth, content, token_count, earliest_at, latest_at, descendant_count, descendant_token_count,
       source_message_token_count, created_at, file_ids, model
  FROM summaries ORDER BY depth, summary_id;

-- name: message_links
SELECT l.summary_id, l.message_id FROM summary_messages l
 WHERE l.summary_id IN (SELECT value FROM json_each(:ids)) ORDER BY l.summary_id, l.ordinal, l.message_id;

-- name: source_links
SELECT p.summary_id, p.parent_summary_id FROM summary_parents p
 WHERE p.summary_id IN (SELECT value FROM json_each(:ids)) ORDER BY p.summary_id, p.ordinal, p.parent_summary_id;

-- name: stale
-- Changes to summarised messages since the summaries were written.
SELECT summary_id, message_id, at FROM stale_summaries
 WHERE summary_id IN (SELECT value FROM json_each(:ids)) ORDER BY summary_id, message_id;

-- name: taken_context_log
SELECT count(*) FROM context_log WHERE log_id IN (SELECT value FROM json_each(:ids));

-- name: taken_pins
SELECT count(*) FROM pins WHERE pin_id IN (SELECT value FROM json_each(:ids));

-- name: forget_messages
UPDATE context_log SET detail = iif(action = 'undo', detail, json_object('lost', :reason)),
       removed = (SELECT json_group_array(value) FROM json_each(removed) WHERE type = 'text'),
       added = (SELECT json_group_array(value) FROM json_each(added) WHERE type = 'text')
 WHERE conversation_id = :conversation_id;

-- name: next_number
-- The next number of an AUTOINCREMENT table.
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = :table), 0) + 1;

-- name: candidates
-- Conversations that may match the incoming one: the same key, or the same run where not both have keys.
SELECT conversation_id, session_id, session_key, created_at FROM conversations
 WHERE session_key = :session_key
    OR (session_id = :session_id AND (session_key IS NULL OR :session_key IS NULL OR session_key = :session_key))
 ORDER BY conversation_id;

-- name: is_active
SELECT conversation_id FROM conversations WHERE session_key = :session_key AND active = 1;

-- name: taken_numbers
-- The number of a permanently deleted conversation is not reused.
SELECT 1 FROM conversations WHERE conversation_id = :conversation_id
UNION ALL
SELECT 1 FROM pruned_histories WHERE number = :conversation_id
UNION ALL
SELECT 1 FROM messages WHERE message_id IN (SELECT value FROM json_each(:ids)) LIMIT 1;

-- name: pruned
SELECT * FROM pruned_histories ORDER BY number;

-- name: pruned_there
SELECT 1 FROM pruned_histories
 WHERE session_key IS :session_key AND path IS :path AND header_id IS :header_id AND marks = :marks;

-- name: pruned_before
-- Below all numbers in use: what was deleted elsewhere counts as older than everything here.
SELECT min(0, coalesce((SELECT min(number) FROM pruned_histories), 0));

-- name: numbers_known
SELECT 1 FROM sqlite_sequence WHERE name = 'conversations';

-- name: begin_numbers
INSERT INTO sqlite_sequence (name, seq) VALUES ('conversations', 0);

-- name: lift_numbers
-- No new conversation gets the number of a deleted one.
UPDATE sqlite_sequence SET seq = max(seq, coalesce((SELECT max(number) FROM pruned_histories), 0)) WHERE name = 'conversations';

-- name: rely
INSERT OR IGNORE INTO fork_sources (conversation_id, source_id) VALUES (?, ?);

-- name: taken_parts
SELECT part_id FROM message_parts WHERE part_id IN (SELECT value FROM json_each(:ids));

-- name: taken_summaries
SELECT summary_id, conversation_id FROM summaries WHERE summary_id IN (SELECT value FROM json_each(:ids));

-- name: taken_files
SELECT file_id, conversation_id FROM large_files WHERE file_id IN (SELECT value FROM json_each(:ids));

-- name: taken_briefs
SELECT brief_id, conversation_id FROM focus_briefs WHERE brief_id IN (SELECT value FROM json_each(:ids));

-- name: next_message
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'messages'), 0) + 1,
       coalesce((SELECT max(seq) FROM messages WHERE conversation_id = :conversation_id), 0) + 1;

-- name: hidden
SELECT item, cause FROM hidden_items WHERE conversation_id = :conversation_id;

-- name: pinned
SELECT message_id, content FROM pins WHERE conversation_id = :conversation_id;

-- name: moved
-- Messages that are in a context before older ones, or before a summary of older ones, and whether the reason is
-- recorded: the mark of a preamble, or the log of branches. System prompts may be anywhere.
WITH RECURSIVE below (ordinal, summary_id) AS (
    SELECT ordinal, summary_id FROM context_items WHERE conversation_id = :conversation_id AND summary_id IS NOT NULL
    UNION
    SELECT b.ordinal, p.parent_summary_id FROM below b JOIN summary_parents p USING (summary_id)
), firsts (ordinal, message_id, seq) AS (
    SELECT c.ordinal, m.message_id, m.seq FROM context_items c JOIN messages m USING (message_id)
     WHERE c.conversation_id = :conversation_id AND m.role <> 'system'
    UNION ALL
    SELECT b.ordinal, NULL, min(m.seq) FROM below b JOIN summary_messages l USING (summary_id) JOIN messages m USING (message_id)
     WHERE m.role <> 'system' GROUP BY b.ordinal
), followed (message_id, seq, oldest) AS (
    SELECT message_id, seq, min(seq) OVER (ORDER BY ordinal ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) FROM firsts
)
SELECT f.message_id, coalesce(x.preamble, 0) OR EXISTS (
       SELECT 1 FROM context_log g, json_each(g.added) j WHERE g.conversation_id = :conversation_id AND g.action = 'branch'
          AND json_valid(g.added) AND j.value = f.message_id)
  FROM followed f LEFT JOIN message_extras x USING (message_id) WHERE f.message_id IS NOT NULL AND f.seq > f.oldest;

-- name: clear_context
DELETE FROM context_items WHERE conversation_id = :conversation_id;

-- name: turn_keys
SELECT turn_key FROM turn_keys WHERE conversation_id = :conversation_id;
