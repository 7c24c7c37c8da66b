-- Traversal of the summary graph and of conversations: ids and sizes, little text.

-- name: nodes
SELECT s.summary_id, s.conversation_id, s.depth, s.token_count, s.descendant_token_count, s.source_message_token_count,
       s.descendant_count, (SELECT count(*) FROM summary_parents p WHERE p.summary_id = s.summary_id), s.earliest_at, s.latest_at
  FROM summaries s WHERE s.summary_id IN (SELECT value FROM json_each(:ids))
   AND (:within IS NULL OR s.conversation_id IN (SELECT value FROM json_each(:within)));

-- name: nodes_below
-- The sources of some summaries, in order.
SELECT l.summary_id, s.summary_id, s.conversation_id, s.depth, s.token_count, s.descendant_token_count, s.source_message_token_count,
       s.descendant_count, (SELECT count(*) FROM summary_parents p WHERE p.summary_id = s.summary_id), s.earliest_at, s.latest_at
  FROM summary_parents l JOIN summaries s ON s.summary_id = l.parent_summary_id
 WHERE l.summary_id IN (SELECT value FROM json_each(:ids))
   AND (:within IS NULL OR s.conversation_id IN (SELECT value FROM json_each(:within)))
 ORDER BY l.summary_id, l.ordinal;

-- name: leaf_messages
-- The messages of some leaves, in order.
SELECT summary_id, message_id FROM summary_messages
 WHERE summary_id IN (SELECT value FROM json_each(:ids)) ORDER BY summary_id, ordinal;

-- name: is_below
-- Whether a summary is one of some, or under one of them. Walks up, so the cost is the depth, not the breadth.
WITH RECURSIVE above (summary_id) AS (
    SELECT :id
    UNION
    SELECT p.summary_id FROM summary_parents p JOIN above ON p.parent_summary_id = above.summary_id
)
SELECT 1 FROM above WHERE summary_id IN (SELECT value FROM json_each(:ids)) LIMIT 1;

-- name: places
SELECT message_id, conversation_id, seq FROM messages WHERE message_id IN (SELECT value FROM json_each(:ids))
   AND (:within IS NULL OR conversation_id IN (SELECT value FROM json_each(:within)));

-- name: before
SELECT message_id FROM messages WHERE conversation_id = :conversation_id AND seq < :seq ORDER BY seq DESC LIMIT :limit;

-- name: after
SELECT message_id FROM messages WHERE conversation_id = :conversation_id AND seq > :seq ORDER BY seq LIMIT :limit;
