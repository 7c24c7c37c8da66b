-- Pins and focus briefs.

-- name: pins
SELECT p.pin_id, p.message_id, coalesce(p.content, m.content), p.at FROM pins p LEFT JOIN messages m USING (message_id)
 WHERE p.conversation_id = :conversation_id ORDER BY p.pin_id;

-- name: add_pin
INSERT INTO pins (conversation_id, message_id, content, at) VALUES (:conversation_id, :message_id, :content, :now);

-- name: drop_pin
DELETE FROM pins WHERE conversation_id = :conversation_id AND pin_id = :pin_id;

-- name: active_brief
SELECT brief_id, conversation_id, prompt, content, status, token_count, target_tokens, covered_latest_at, covered_message_seq,
       source_context_hash, error, created_at, raw_result_json
  FROM focus_briefs WHERE conversation_id = :conversation_id AND status = 'active' AND content <> ''
 ORDER BY created_at DESC, brief_id LIMIT 1;

-- name: newest_seqs
-- The newest message under each summary in the context.
WITH RECURSIVE below (root, summary_id) AS (
    SELECT summary_id, summary_id FROM context_items WHERE conversation_id = :conversation_id AND summary_id IS NOT NULL
    UNION
    SELECT below.root, p.parent_summary_id FROM summary_parents p JOIN below USING (summary_id)
)
SELECT below.root, max(m.seq) FROM below JOIN summary_messages l USING (summary_id) JOIN messages m USING (message_id)
 GROUP BY below.root;

-- name: newcomers
-- Summaries of the context with content older than the oldest source of a brief, which only surgery adds. A brief's
-- sources and everything under them are excluded. A summary without messages counts as new unless it is a source.
WITH RECURSIVE known (summary_id) AS (
    SELECT summary_id FROM focus_brief_sources JOIN summaries USING (summary_id) WHERE brief_id = :brief_id
    UNION
    SELECT p.parent_summary_id FROM summary_parents p JOIN known USING (summary_id)
), below (root, summary_id) AS (
    SELECT summary_id, summary_id FROM context_items
     WHERE conversation_id = :conversation_id AND summary_id IS NOT NULL AND summary_id NOT IN (SELECT summary_id FROM known)
    UNION
    SELECT below.root, p.parent_summary_id FROM summary_parents p JOIN below USING (summary_id)
     WHERE p.parent_summary_id NOT IN (SELECT summary_id FROM known)
)
SELECT below.root FROM below JOIN summary_messages l USING (summary_id) JOIN messages m USING (message_id)
 WHERE m.seq < (SELECT min(o.seq) FROM known JOIN summary_messages k USING (summary_id) JOIN messages o USING (message_id)
                 WHERE o.conversation_id = :conversation_id)
UNION
SELECT root FROM below
 WHERE EXISTS (SELECT 1 FROM known)
   AND NOT EXISTS (SELECT 1 FROM summary_messages l WHERE l.summary_id = below.summary_id)
   AND NOT EXISTS (SELECT 1 FROM summary_parents p WHERE p.summary_id = below.summary_id);

-- name: files
SELECT file_id, byte_size, exploration_summary FROM large_files WHERE file_id IN (SELECT value FROM json_each(:ids));
