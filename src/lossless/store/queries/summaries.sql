-- Summaries and what they are made of. Upstream calls a source a "parent".

-- name: insert
INSERT INTO summaries (summary_id, conversation_id, kind, depth, content, token_count, earliest_at, latest_at, descendant_count,
                       descendant_token_count, source_message_token_count, created_at, file_ids, model)
VALUES (:id, :conversation_id, :kind, :depth, :content, :tokens, :earliest, :latest, :descendants, :descendant_tokens,
        :source_tokens, :created, :files, :model);

-- name: link_message
INSERT INTO summary_messages (summary_id, message_id, ordinal) VALUES (?, ?, ?);

-- name: link_source
INSERT INTO summary_parents (summary_id, parent_summary_id, ordinal) VALUES (?, ?, ?);

-- name: span_of_messages
SELECT min(julianday(created_at)), max(julianday(created_at)), sum(token_count), count(*),
       strftime('%Y-%m-%dT%H:%M:%fZ', min(julianday(created_at))), strftime('%Y-%m-%dT%H:%M:%fZ', max(julianday(created_at)))
  FROM messages WHERE message_id IN (SELECT value FROM json_each(:ids));

-- name: span_of_summaries
SELECT min(earliest_at), max(latest_at), sum(descendant_count + 1), sum(token_count + descendant_token_count),
       sum(source_message_token_count), count(*)
  FROM summaries WHERE summary_id IN (SELECT value FROM json_each(:ids));

-- name: by_ids
SELECT summary_id, conversation_id, depth, content, token_count, earliest_at, latest_at, descendant_count,
       descendant_token_count, source_message_token_count, created_at, file_ids, model
  FROM summaries WHERE summary_id IN (SELECT value FROM json_each(:ids));

-- name: sources_of
SELECT summary_id, parent_summary_id FROM summary_parents
 WHERE summary_id IN (SELECT value FROM json_each(:ids)) ORDER BY summary_id, ordinal;

-- name: used_in
SELECT summary_id FROM summary_parents WHERE parent_summary_id = :id ORDER BY summary_id;

-- name: messages_of
SELECT message_id FROM summary_messages WHERE summary_id = :id ORDER BY ordinal;

-- name: covering
-- The leaf summaries over some messages.
SELECT message_id, summary_id FROM summary_messages WHERE message_id IN (SELECT value FROM json_each(:ids));

-- name: mark_pending_stale
-- Upstream's half-made summaries over a conversation whose context we changed.
UPDATE pending_compaction_batches SET status = 'stale', updated_at = datetime('now')
 WHERE conversation_id = :conversation_id AND status IN ('planning', 'ready', 'publishing')
   AND compactable_start_ordinal <= :last AND compactable_end_ordinal >= :first;

-- name: mark_pending_nodes_stale
UPDATE pending_summary_nodes SET status = 'stale', updated_at = datetime('now')
 WHERE conversation_id = :conversation_id AND status IN ('planned', 'running', 'ready')
   AND batch_id IN (SELECT batch_id FROM pending_compaction_batches WHERE status = 'stale');

-- name: has_pending
SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'pending_compaction_batches';

-- name: above
-- Every summary over some messages, the leaves first.
WITH RECURSIVE above (id) AS (
    SELECT summary_id FROM summary_messages WHERE message_id IN (SELECT value FROM json_each(:ids))
    UNION
    SELECT p.summary_id FROM above JOIN summary_parents p ON p.parent_summary_id = above.id)
SELECT s.summary_id FROM above JOIN summaries s ON s.summary_id = above.id ORDER BY s.depth, s.rowid;

-- name: mark_stale
WITH RECURSIVE above (id, message_id) AS (
    SELECT summary_id, message_id FROM summary_messages WHERE message_id IN (SELECT value FROM json_each(:ids))
    UNION
    SELECT p.summary_id, above.message_id FROM above JOIN summary_parents p ON p.parent_summary_id = above.id)
INSERT INTO stale_summaries (summary_id, message_id, at)
SELECT id, message_id, :at FROM above WHERE true
    ON CONFLICT DO UPDATE SET at = excluded.at;

-- name: stale
SELECT t.summary_id, t.message_id FROM stale_summaries t JOIN summaries s USING (summary_id) JOIN messages m USING (message_id)
 WHERE s.conversation_id = :conversation_id ORDER BY s.depth, s.rowid, m.seq;

-- name: clear_stale
DELETE FROM stale_summaries WHERE summary_id IN (SELECT value FROM json_each(:ids));

-- name: prepared
-- Leaves that were written ahead for a run of messages that begins with this one, and that still tell what it says.
SELECT l.summary_id FROM summary_messages l JOIN summaries s USING (summary_id)
 WHERE l.message_id = :first AND l.ordinal = 0 AND s.conversation_id = :conversation_id AND s.depth = 0
   AND EXISTS (SELECT 1 FROM context_log g WHERE g.conversation_id = :conversation_id AND g.action = 'prepare'
         AND json_valid(g.added) AND g.added ->> 0 = s.summary_id)
   AND NOT EXISTS (SELECT 1 FROM context_items c WHERE c.conversation_id = :conversation_id AND c.summary_id = s.summary_id)
   AND NOT EXISTS (SELECT 1 FROM summary_parents p WHERE p.parent_summary_id = s.summary_id)
   AND NOT EXISTS (SELECT 1 FROM stale_summaries t WHERE t.summary_id = s.summary_id)
   AND NOT EXISTS (SELECT 1 FROM hidden_items h WHERE h.conversation_id = :conversation_id AND h.item = s.summary_id)
 ORDER BY s.rowid DESC;
