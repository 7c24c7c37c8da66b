-- The conversations of briefs and of merges, and what else uses copies.

-- name: brief_owner
SELECT conversation_id FROM focus_briefs WHERE brief_id = :id;

-- name: merges_of
-- The merges of a conversation, newest first, including undone ones.
SELECT l.log_id, l.conversation_id FROM context_log l
 WHERE l.action = 'merge' AND json_valid(l.detail)
   AND EXISTS (SELECT 1 FROM json_each(l.detail, '$.sources') s WHERE s.value ->> 'id' = :conversation_id)
 ORDER BY l.log_id DESC;

-- name: needed
-- What prevents copies from being removed: contexts of others, hidden items, briefs in use, summaries that are not
-- copies.
SELECT summary_id, 'a context of another conversation' FROM context_items
 WHERE summary_id IN (SELECT value FROM json_each(:summaries)) AND conversation_id <> :conversation_id
UNION ALL
SELECT item, 'what is hidden' FROM hidden_items WHERE item IN (SELECT value FROM json_each(:summaries))
UNION ALL
SELECT l.summary_id, 'focus brief ' || brief_id FROM focus_brief_sources l JOIN focus_briefs USING (brief_id)
 WHERE l.summary_id IN (SELECT value FROM json_each(:summaries)) AND status IN ('active', 'draft')
UNION ALL
SELECT parent_summary_id, 'summary ' || summary_id FROM summary_parents
 WHERE parent_summary_id IN (SELECT value FROM json_each(:summaries))
   AND summary_id NOT IN (SELECT value FROM json_each(:summaries))
UNION ALL
SELECT 'msg#' || message_id, 'summary ' || summary_id FROM summary_messages
 WHERE message_id IN (SELECT value FROM json_each(:messages))
   AND summary_id NOT IN (SELECT value FROM json_each(:summaries))
LIMIT 1;
