-- Surgery on summaries and contexts, and its undo.

-- name: entries
SELECT log_id, at, actor, action, cause, removed, added, ordinal, tokens_before, tokens_after, detail
  FROM context_log WHERE conversation_id = :conversation_id AND log_id > :after AND log_id <= :through
 ORDER BY log_id;

-- name: newest_entry
SELECT max(log_id) FROM context_log WHERE conversation_id = :conversation_id;

-- name: entry_before
-- The newest change of a conversation up to a moment.
SELECT coalesce(max(log_id), 0) FROM context_log WHERE conversation_id = :conversation_id AND at <= :at;

-- name: keep_former
INSERT INTO former_summaries (log_id, summary_id, state) VALUES (?, ?, ?);

-- name: former
SELECT state FROM former_summaries WHERE log_id = :log_id ORDER BY summary_id;

-- name: state
SELECT summary_id, conversation_id, kind, depth, content, token_count, earliest_at, latest_at, descendant_count,
       descendant_token_count, source_message_token_count, created_at, file_ids, model
  FROM summaries WHERE summary_id = :id;

-- name: insert_state
INSERT INTO summaries (summary_id, conversation_id, kind, depth, content, token_count, earliest_at, latest_at, descendant_count,
                       descendant_token_count, source_message_token_count, created_at, file_ids, model)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: set_text
UPDATE summaries SET content = :content, token_count = :tokens, model = :model, file_ids = :files WHERE summary_id = :id;

-- name: recount_leaf
-- Spans and counts derived from a leaf's messages.
UPDATE summaries SET (earliest_at, latest_at, source_message_token_count, descendant_count, descendant_token_count) = (
       SELECT strftime('%Y-%m-%dT%H:%M:%fZ', min(julianday(m.created_at))), strftime('%Y-%m-%dT%H:%M:%fZ', max(julianday(m.created_at))),
              coalesce(sum(m.token_count), 0), 0, 0
         FROM summary_messages l JOIN messages m USING (message_id) WHERE l.summary_id = summaries.summary_id)
 WHERE summary_id = :id AND kind = 'leaf';

-- name: recount_condensed
-- Times are compared as times: other programs write them in different formats.
UPDATE summaries SET (earliest_at, latest_at, source_message_token_count, descendant_count, descendant_token_count) = (
       SELECT strftime('%Y-%m-%dT%H:%M:%fZ', min(julianday(c.earliest_at))), strftime('%Y-%m-%dT%H:%M:%fZ', max(julianday(c.latest_at))),
              coalesce(sum(c.source_message_token_count), 0),
              coalesce(sum(c.descendant_count + 1), 0), coalesce(sum(c.token_count + c.descendant_token_count), 0)
         FROM summary_parents p JOIN summaries c ON c.summary_id = p.parent_summary_id WHERE p.summary_id = summaries.summary_id)
 WHERE summary_id = :id AND kind = 'condensed';

-- name: above
-- Some summaries and everything made of them, shallowest first.
WITH RECURSIVE above (summary_id) AS (
    SELECT value FROM json_each(:ids)
    UNION
    SELECT p.summary_id FROM summary_parents p JOIN above ON p.parent_summary_id = above.summary_id
)
SELECT s.summary_id FROM summaries s JOIN above USING (summary_id) ORDER BY s.depth, s.summary_id;

-- name: below
-- Some summaries and everything under them, shallowest first, then oldest first.
WITH RECURSIVE below (summary_id) AS (
    SELECT value FROM json_each(:ids)
    UNION
    SELECT p.parent_summary_id FROM summary_parents p JOIN below USING (summary_id)
)
SELECT s.summary_id FROM summaries s JOIN below USING (summary_id) ORDER BY s.depth, s.earliest_at, s.summary_id;

-- name: of_conversation
SELECT summary_id FROM summaries WHERE conversation_id = :conversation_id ORDER BY depth, earliest_at, summary_id;

-- name: before
-- The summaries of the same depth just before one, oldest first.
SELECT summary_id FROM (
SELECT o.summary_id, o.earliest_at FROM summaries s JOIN summaries o ON o.conversation_id = s.conversation_id AND o.depth = s.depth
 WHERE s.summary_id = :id AND (o.earliest_at, o.summary_id) < (s.earliest_at, s.summary_id)
   AND NOT EXISTS (SELECT 1 FROM summary_messages l JOIN summary_messages k USING (message_id)
                    WHERE l.summary_id = o.summary_id AND k.summary_id = s.summary_id)
 ORDER BY o.earliest_at DESC, o.summary_id DESC LIMIT :limit) ORDER BY earliest_at, summary_id;

-- name: source_tokens
SELECT coalesce((SELECT sum(m.token_count) FROM summary_messages l JOIN messages m USING (message_id) WHERE l.summary_id = :id), 0)
     + coalesce((SELECT sum(c.token_count) FROM summary_parents p JOIN summaries c ON c.summary_id = p.parent_summary_id
                  WHERE p.summary_id = :id), 0);

-- name: uses
-- What uses a summary: `context`, `hidden`, a `brief` in use, or the id of a summary made of it.
SELECT 'context' FROM context_items WHERE summary_id = :id
UNION ALL SELECT 'hidden' FROM hidden_items WHERE item = :id
UNION ALL SELECT 'brief' FROM focus_brief_sources JOIN focus_briefs USING (brief_id)
           WHERE summary_id = :id AND status IN ('active', 'draft')
UNION ALL SELECT summary_id FROM summary_parents WHERE parent_summary_id = :id;

-- name: purge.index_row
DELETE FROM summary_index WHERE rowid = (SELECT index_id FROM summary_extras WHERE summary_id = :id);

-- name: purge.extras
DELETE FROM summary_extras WHERE summary_id = :id;

-- name: purge.message_links
DELETE FROM summary_messages WHERE summary_id = :id;

-- name: purge.source_links
DELETE FROM summary_parents WHERE summary_id = :id;

-- name: purge.brief_links
-- Briefs that are no longer in use need no source.
DELETE FROM focus_brief_sources WHERE summary_id = :id;

-- name: brief_links
SELECT brief_id, ordinal, role, created_at FROM focus_brief_sources WHERE summary_id = :id ORDER BY brief_id, role, ordinal;

-- name: link_brief
-- A brief that no longer exists is skipped.
INSERT OR IGNORE INTO focus_brief_sources (summary_id, brief_id, ordinal, role, created_at)
SELECT ?1, ?2, ?3, ?4, ?5 WHERE EXISTS (SELECT 1 FROM focus_briefs WHERE brief_id = ?2);

-- name: purge.summary
DELETE FROM summaries WHERE summary_id = :id;

-- name: visible
SELECT j.value FROM json_each(:items) j
 WHERE NOT EXISTS (SELECT 1 FROM hidden_items h WHERE h.conversation_id = :conversation_id AND h.item = j.value) ORDER BY j.key;
