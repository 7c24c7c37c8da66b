-- Pages, newest first. One query finds the ids of a page; others read and count for those ids only. Text from people or
-- programs is returned as bytes: it may not be UTF-8.

-- name: conversation_page
-- By the time of the last change, or with :by_message by the newest message's time; those without a time come last. A
-- turn does not write its conversation's row: it records when it stored, and up to which message. For other programs the
-- newest message's time is used; it is read only when needed, because a message's time is stored after its text.
-- Conversations from :first to :last.
WITH newest AS MATERIALIZED (
    SELECT owner.conversation_id, coalesce((
           SELECT julianday(m.created_at) FROM messages m
            WHERE :by_message AND m.conversation_id = owner.conversation_id ORDER BY m.seq DESC LIMIT 1), -1) AS said, max(
           coalesce(julianday(owner.updated_at), -1),
           coalesce(julianday(i.last_stored_at), -1),
           CASE WHEN i.last_stored_at IS NOT NULL AND i.context_seq = (
                    SELECT max(m.seq) FROM messages m WHERE m.conversation_id = owner.conversation_id) THEN -1
                ELSE coalesce((SELECT julianday(m.created_at) FROM messages m
                                WHERE m.conversation_id = owner.conversation_id ORDER BY m.seq DESC LIMIT 1), -1)
           END) AS changed
      FROM conversations owner LEFT JOIN ingest_state i ON i.conversation_id = owner.conversation_id
     WHERE owner.conversation_id BETWEEN :first AND :last
       AND (:within IS NULL OR owner.conversation_id IN (SELECT value FROM json_each(:within)))),
placed AS (SELECT conversation_id, changed, iif(:by_message, said, changed) AS at FROM newest)
SELECT conversation_id, CASE WHEN at < 0 THEN '' ELSE strftime('%Y-%m-%dT%H:%M:%fZ', at) END,
       CASE WHEN changed < 0 THEN '' ELSE strftime('%Y-%m-%dT%H:%M:%fZ', changed) END
  FROM placed
 WHERE (:from_at IS NULL OR (at, conversation_id) < (coalesce(julianday(:from_at), -1), :from_id))
   AND (:since IS NULL OR at >= julianday(:since))
   AND (:before IS NULL OR at < julianday(:before))
 ORDER BY at DESC, conversation_id DESC LIMIT :limit;

-- name: conversations
-- Of a page, in its order: pairs of a conversation and when it last changed. A message counts once, at its leaf. The bound
-- on seq excludes nothing: it selects the index whose order matches the table.
WITH page AS MATERIALIZED (SELECT key AS place, value ->> 0 AS conversation_id, value ->> 1 AS changed FROM json_each(:page)),
said AS MATERIALIZED (
    SELECT conversation_id, count(*) AS messages, sum(token_count) AS tokens,
           CAST(min(created_at) FILTER (WHERE created_at < ':') AS BLOB) AS earliest,
           CAST(max(created_at) FILTER (WHERE created_at < ':') AS BLOB) AS latest
      FROM messages WHERE conversation_id IN (SELECT conversation_id FROM page) AND seq > -9e18 GROUP BY conversation_id),
folded AS MATERIALIZED (
    SELECT conversation_id, count(*) AS summaries, sum(token_count) AS tokens,
           coalesce(sum(source_message_token_count) FILTER (WHERE kind = 'leaf'), 0) AS sources,
           min(coalesce(strftime('%Y-%m-%dT%H:%M:%fZ', earliest_at), strftime('%Y-%m-%dT%H:%M:%fZ', created_at))) AS earliest,
           max(coalesce(strftime('%Y-%m-%dT%H:%M:%fZ', latest_at), strftime('%Y-%m-%dT%H:%M:%fZ', created_at))) AS latest,
           max(depth) AS depth
      FROM summaries WHERE conversation_id IN (SELECT conversation_id FROM page) GROUP BY conversation_id),
shown AS MATERIALIZED (
    SELECT c.conversation_id, count(*) AS items, coalesce(sum(coalesce(m.token_count, s.token_count)), 0) AS tokens
      FROM context_items c
      LEFT JOIN messages m ON m.message_id = c.message_id
      LEFT JOIN summaries s ON s.summary_id = c.summary_id
     WHERE c.conversation_id IN (SELECT conversation_id FROM page) GROUP BY c.conversation_id)
SELECT o.conversation_id, CAST(o.session_id AS BLOB), CAST(o.session_key AS BLOB), o.active, CAST(o.archived_at AS BLOB),
       CAST(o.archive_cause AS BLOB), CAST(o.title AS BLOB), CAST(o.bootstrapped_at AS BLOB), CAST(o.created_at AS BLOB), p.changed,
       coalesce(a.messages, 0), coalesce(a.tokens, 0), a.earliest, a.latest, coalesce(f.summaries, 0), coalesce(f.tokens, 0),
       coalesce(f.sources, 0), f.earliest, f.latest, f.depth, coalesce(s.items, 0), coalesce(s.tokens, 0)
  FROM page p
  JOIN conversations o ON o.conversation_id = p.conversation_id
  LEFT JOIN said a ON a.conversation_id = p.conversation_id
  LEFT JOIN folded f ON f.conversation_id = p.conversation_id
  LEFT JOIN shown s ON s.conversation_id = p.conversation_id
 ORDER BY p.place;

-- name: message_sizes
SELECT count(*), coalesce(sum(token_count), 0) FROM messages WHERE conversation_id = :conversation_id AND seq > -9e18;

-- name: conversation_by_number
SELECT conversation_id FROM conversations WHERE conversation_id = :id;

-- name: conversation_by_key
SELECT conversation_id FROM conversations WHERE session_key = :key
 ORDER BY active DESC, created_at DESC, conversation_id DESC LIMIT 1;

-- name: message_page
-- Newest first, after the message :from_id; if that is gone, after its former position.
SELECT message_id FROM messages
 WHERE conversation_id = :conversation_id
   AND seq < coalesce(
       CASE WHEN :from_id IS NULL THEN 9223372036854775807 END,
       (SELECT seq FROM messages WHERE message_id = :from_id AND +conversation_id = :conversation_id),
       (SELECT min(seq) FROM messages WHERE conversation_id = :conversation_id AND message_id > :from_id),
       9223372036854775807)
   AND (:since IS NULL OR strftime('%Y-%m-%dT%H:%M:%fZ', created_at) >= :since)
   AND (:before IS NULL OR strftime('%Y-%m-%dT%H:%M:%fZ', created_at) < :before)
   AND (:roles IS NULL OR role IN (SELECT value FROM json_each(:roles)))
 ORDER BY seq DESC LIMIT :limit;

-- name: messages
-- In the given order; each with the names of its tools.
SELECT m.message_id, m.conversation_id, m.seq, m.role, m.token_count, CAST(m.created_at AS BLOB), CAST(m.large_content AS BLOB),
       (SELECT CAST(json_group_array(CAST(tool_name AS TEXT)) AS BLOB) FROM (
               SELECT p.tool_name FROM message_parts p
                WHERE p.message_id = m.message_id AND p.tool_name IS NOT NULL ORDER BY p.ordinal)),
       substr(CAST(m.content AS BLOB), 1, :bytes)
  FROM json_each(:ids) j CROSS JOIN messages m ON m.message_id = j.value ORDER BY j.key;

-- name: tool_calls
-- The messages with the newest :limit calls of some tools, and their results, which come after the calls.
WITH calls AS MATERIALIZED (
    SELECT m.message_id, m.seq, p.tool_call_id FROM messages m CROSS JOIN message_parts p ON p.message_id = m.message_id
     WHERE m.conversation_id = :conversation_id AND m.seq > -9e18
       AND p.tool_name IN (SELECT value FROM json_each(:tools)) AND p.tool_input IS NOT NULL
     ORDER BY m.seq DESC LIMIT :limit)
SELECT m.message_id FROM messages m
 WHERE m.conversation_id = :conversation_id AND m.seq >= (SELECT min(seq) FROM calls)
   AND (m.message_id IN (SELECT message_id FROM calls)
        OR EXISTS (SELECT 1 FROM message_parts p
                    WHERE p.message_id = m.message_id AND p.tool_call_id IN (SELECT tool_call_id FROM calls)))
 ORDER BY m.seq;

-- name: newest_items
-- The last :count items of each context, newest first.
SELECT c.conversation_id, c.ordinal, c.message_id, c.summary_id, m.role, coalesce(m.token_count, s.token_count, 0), m.seq, s.depth,
       coalesce(x.budget_tokens, y.budget_tokens, -1)
  FROM json_each(:ids) j
 CROSS JOIN context_items c ON c.conversation_id = j.value AND c.ordinal >= (
       SELECT min(ordinal) FROM (
           SELECT n.ordinal FROM context_items n WHERE n.conversation_id = j.value ORDER BY n.ordinal DESC LIMIT :count))
  LEFT JOIN messages m ON m.message_id = c.message_id
  LEFT JOIN message_extras x ON x.message_id = c.message_id
  LEFT JOIN summaries s ON s.summary_id = c.summary_id
  LEFT JOIN summary_extras y ON y.summary_id = c.summary_id
 ORDER BY c.conversation_id, c.ordinal DESC;

-- name: summary_page
-- By the time of the newest message under each; those without a time come last. Conversations from :first to :last.
SELECT summary_id, at FROM (
    SELECT summary_id, coalesce(strftime('%Y-%m-%dT%H:%M:%fZ', latest_at), strftime('%Y-%m-%dT%H:%M:%fZ', created_at), '') AS at
      FROM summaries
     WHERE conversation_id BETWEEN :first AND :last
       AND (:within IS NULL OR conversation_id IN (SELECT value FROM json_each(:within)))
       AND (:depth IS NULL OR depth = :depth) AND (:kind IS NULL OR kind = :kind))
 WHERE (:from_at IS NULL OR (at, summary_id) < (:from_at, :from_id))
   AND (:since IS NULL OR at >= :since)
   AND (:before IS NULL OR (at < :before AND at <> ''))
 ORDER BY at DESC, summary_id DESC LIMIT :limit;

-- name: summaries
-- In the given order. Only rows of the same conversation count. The unary + keeps that condition from selecting the index.
SELECT s.summary_id, s.conversation_id, s.kind, s.depth, s.token_count, CAST(s.earliest_at AS BLOB), CAST(s.latest_at AS BLOB),
       coalesce(strftime('%Y-%m-%dT%H:%M:%fZ', s.latest_at), strftime('%Y-%m-%dT%H:%M:%fZ', s.created_at)),
       s.descendant_count, s.descendant_token_count, s.source_message_token_count, CAST(s.created_at AS BLOB),
       CAST(s.file_ids AS BLOB), CAST(s.model AS BLOB),
       (SELECT count(*) FROM summary_parents l JOIN summaries o ON o.summary_id = l.summary_id
         WHERE l.parent_summary_id = s.summary_id AND +o.conversation_id = s.conversation_id),
       (SELECT count(*) FROM summary_parents l JOIN summaries o ON o.summary_id = l.parent_summary_id
         WHERE l.summary_id = s.summary_id AND +o.conversation_id = s.conversation_id),
       (SELECT count(*) FROM summary_messages l JOIN messages m ON m.message_id = l.message_id
         WHERE l.summary_id = s.summary_id AND +m.conversation_id = s.conversation_id),
       substr(CAST(s.content AS BLOB), 1, :bytes)
  FROM json_each(:ids) j CROSS JOIN summaries s ON s.summary_id = j.value ORDER BY j.key;
