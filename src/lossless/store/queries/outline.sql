-- The shape of a summary graph, and changes of a context over time: ids and sizes, no text.

-- name: tops
-- The summaries of a conversation that are in its context or not a source of any other; oldest first.
WITH standing AS MATERIALIZED (
    SELECT summary_id, min(ordinal) AS ordinal FROM context_items
     WHERE conversation_id = :conversation_id AND summary_id IS NOT NULL GROUP BY summary_id)
SELECT s.summary_id, c.ordinal, count(*) OVER ()
  FROM summaries s LEFT JOIN standing c ON c.summary_id = s.summary_id
 WHERE s.conversation_id = :conversation_id
   AND (c.ordinal IS NOT NULL
        OR NOT EXISTS (SELECT 1 FROM summary_parents l WHERE l.parent_summary_id = s.summary_id))
 ORDER BY coalesce(strftime('%Y-%m-%dT%H:%M:%fZ', s.earliest_at), strftime('%Y-%m-%dT%H:%M:%fZ', s.created_at), ''),
          s.depth DESC, c.ordinal, s.summary_id
 LIMIT :limit OFFSET :offset;

-- name: summaries_in_context
-- Which of some summaries are in the context of their conversation.
SELECT summary_id FROM context_items
 WHERE conversation_id = :conversation_id AND summary_id IN (SELECT value FROM json_each(:ids));

-- name: shapes
-- All summaries of a conversation, shallowest first, then by time.
SELECT s.summary_id, s.depth, s.token_count, s.source_message_token_count,
       CAST(coalesce(s.earliest_at, s.created_at) AS BLOB), CAST(coalesce(s.latest_at, s.created_at) AS BLOB),
       s.summary_id IN (SELECT c.summary_id FROM context_items c
                         WHERE c.conversation_id = :conversation_id AND c.summary_id IS NOT NULL)
  FROM summaries s WHERE s.conversation_id = :conversation_id
 ORDER BY s.depth, coalesce(strftime('%Y-%m-%dT%H:%M:%fZ', s.earliest_at), strftime('%Y-%m-%dT%H:%M:%fZ', s.created_at), ''),
          s.summary_id;

-- name: edges
-- The sources of a conversation's summaries, in order.
SELECT l.summary_id, l.parent_summary_id
  FROM summaries s JOIN summary_parents l ON l.summary_id = s.summary_id
 WHERE s.conversation_id = :conversation_id ORDER BY l.summary_id, l.ordinal;

-- name: beginnings
-- The first words of a conversation's summaries.
SELECT summary_id, substr(CAST(content AS BLOB), 1, :bytes) FROM summaries WHERE conversation_id = :conversation_id;

-- name: context_sizes
-- The size of a context before and after each of its newest changes, newest first.
SELECT at, action, tokens_before, tokens_after FROM context_log
 WHERE conversation_id = :conversation_id ORDER BY log_id DESC LIMIT :limit;

-- name: calls_by_day
SELECT substr(at, 1, 10), count(*), coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0),
       json_group_array(CAST(cost AS TEXT)) FILTER (WHERE cost IS NOT NULL),
       sum(cost IS NULL)
  FROM spend_ledger
 WHERE kind = 'call' AND at >= :since AND (:conversation_id IS NULL OR conversation_id = :conversation_id)
 GROUP BY 1 ORDER BY 1;

-- name: folds_by_day
SELECT substr(at, 1, 10), count(*), sum(tokens_before - tokens_after)
  FROM context_log
 WHERE action = 'fold' AND at >= :since AND (:conversation_id IS NULL OR conversation_id = :conversation_id)
 GROUP BY 1 ORDER BY 1;
