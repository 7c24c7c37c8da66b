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
SELECT strftime('%Y-%m-%dT%H:%M:%fZ', min(julianday(created_at))) AS earliest,
       strftime('%Y-%m-%dT%H:%M:%fZ', max(julianday(created_at))) AS latest, 0, 0, coalesce(sum(token_count), 0), count(*)
  FROM messages WHERE message_id IN (SELECT value FROM json_each(:ids));

-- name: span_of_summaries
SELECT min(earliest_at), max(latest_at), sum(descendant_count + 1), sum(token_count + descendant_token_count),
       sum(source_message_token_count), count(*)
  FROM summaries WHERE summary_id IN (SELECT value FROM json_each(:ids));

-- name: by_ids
SELECT summary_id, conversation_id, depth, content, token_count, earliest_at, latest_at, descendant_count,
       descendant_token_count, source_message_token_count, created_at, file_ids, model
  FROM summaries WHERE summary_id IN (SELECT value FROM json_each(:ids))
   AND (:within IS NULL OR conversation_id IN (SELECT value FROM json_each(:within)));

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
-- Upstream's unfinished summaries over a conversation whose context we changed.
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
-- Every summary over some messages, leaves first.
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
-- Except changes that a source of the summary does not reflect yet, and revisions after the new text was started.
DELETE FROM stale_summaries WHERE summary_id = :id
   AND message_id NOT IN (SELECT b.message_id FROM summary_parents p JOIN stale_summaries b ON b.summary_id = p.parent_summary_id
                           WHERE p.summary_id = :id)
   AND NOT EXISTS (SELECT 1 FROM message_versions v
                    WHERE v.message_id = stale_summaries.message_id AND NOT v.lesser AND v.version_id > :since);

-- name: carry_stale
-- A summary of stale summaries is stale, too.
INSERT INTO stale_summaries (summary_id, message_id, at)
SELECT DISTINCT :id, message_id, :at FROM stale_summaries WHERE summary_id IN (SELECT value FROM json_each(:ids))
    ON CONFLICT DO NOTHING;

-- name: moment
SELECT (SELECT coalesce(max(version_id), 0) FROM message_versions), (SELECT coalesce(max(log_id), 0) FROM context_log);

-- name: has_changed_since
SELECT 1 WHERE (SELECT coalesce(max(version_id), 0) FROM message_versions) > :version
            OR EXISTS (SELECT 1 FROM context_log WHERE log_id > :change AND action = 'branch');

-- name: mark_since
-- Messages under a summary that were reworded, added or removed after a moment.
WITH RECURSIVE below (source) AS (
    SELECT :id
    UNION
    SELECT p.parent_summary_id FROM below JOIN summary_parents p ON p.summary_id = below.source)
INSERT INTO stale_summaries (summary_id, message_id, at)
SELECT DISTINCT :id, l.message_id, :at FROM below JOIN summary_messages l ON l.summary_id = below.source
 WHERE EXISTS (SELECT 1 FROM message_versions v WHERE v.message_id = l.message_id AND NOT v.lesser AND v.version_id > :version)
    OR l.message_id IN (SELECT j.value FROM context_log g, json_each(g.removed) j WHERE g.log_id > :change AND g.action = 'branch'
                        UNION ALL
                        SELECT j.value FROM context_log g, json_each(g.added) j WHERE g.log_id > :change AND g.action = 'branch')
    ON CONFLICT DO NOTHING;

-- name: changes_below
-- Changes under stale summaries: a message was removed, reworded, or added.
SELECT t.summary_id, m.message_id,
       CASE WHEN h.item IS NOT NULL THEN 'removed'
            WHEN EXISTS (SELECT 1 FROM message_versions v WHERE v.message_id = m.message_id AND NOT v.lesser) THEN 'revised'
            ELSE 'added' END,
       m.content
  FROM stale_summaries t JOIN messages m USING (message_id)
  LEFT JOIN hidden_items h ON h.conversation_id = m.conversation_id AND h.item = +m.message_id
 WHERE t.summary_id IN (SELECT value FROM json_each(:ids)) ORDER BY t.summary_id, m.seq;

-- name: leaf_in_context
-- The leaf over a message that the context shows directly or through a summary above it, and the message's position in
-- it.
WITH RECURSIVE above (leaf, ordinal, summary_id) AS (
    SELECT summary_id, ordinal, summary_id FROM summary_messages WHERE message_id = :message_id
    UNION
    SELECT above.leaf, above.ordinal, p.summary_id FROM summary_parents p JOIN above ON p.parent_summary_id = above.summary_id)
SELECT above.leaf, above.ordinal, summary_id FROM above JOIN context_items c USING (summary_id)
 WHERE c.conversation_id = :conversation_id LIMIT 1;

-- name: first_below
-- The first of all messages that a summary covers.
WITH RECURSIVE first (id) AS (
    SELECT :id
    UNION ALL
    SELECT (SELECT p.parent_summary_id FROM summary_parents p WHERE p.summary_id = first.id ORDER BY p.ordinal LIMIT 1)
      FROM first WHERE EXISTS (SELECT 1 FROM summary_parents p WHERE p.summary_id = first.id) LIMIT 1000)
SELECT message_id FROM summary_messages WHERE summary_id IN (SELECT id FROM first) ORDER BY ordinal LIMIT 1;

-- name: make_room
UPDATE summary_messages SET ordinal = ordinal + :by WHERE summary_id = :id AND ordinal >= :ordinal;

-- name: former_texts
SELECT DISTINCT state ->> '$.row.content' FROM former_summaries WHERE summary_id = :id;

-- name: written_at
-- When a summary got the text that it had before a change of the context.
SELECT coalesce((SELECT max(g.at) FROM former_summaries f JOIN context_log g USING (log_id)
                  WHERE f.summary_id = :id AND f.log_id < :log_id),
                (SELECT created_at FROM summaries WHERE summary_id = :id));

-- name: mark_changed_since
-- Messages under a summary that were reworded or removed from a second on.
WITH RECURSIVE below (source) AS (
    SELECT :id
    UNION
    SELECT p.parent_summary_id FROM below JOIN summary_parents p ON p.summary_id = below.source)
INSERT INTO stale_summaries (summary_id, message_id, at)
SELECT DISTINCT :id, l.message_id, :at FROM below JOIN summary_messages l ON l.summary_id = below.source
 WHERE EXISTS (SELECT 1 FROM message_versions v WHERE v.message_id = l.message_id AND NOT v.lesser AND v.at >= unixepoch(:since))
    OR EXISTS (SELECT 1 FROM hidden_items h WHERE h.item = l.message_id AND unixepoch(h.at) >= unixepoch(:since))
    ON CONFLICT DO NOTHING;

-- name: prepared
-- Leaves written in advance for a run of messages that begins with this one, and that still match its text.
SELECT l.summary_id FROM summary_messages l JOIN summaries s USING (summary_id)
 WHERE l.message_id = :first AND l.ordinal = 0 AND s.conversation_id = :conversation_id AND s.depth = 0
   AND EXISTS (SELECT 1 FROM context_log g WHERE g.conversation_id = :conversation_id AND g.action = 'prepare'
         AND json_valid(g.added) AND g.added ->> 0 = s.summary_id)
   AND NOT EXISTS (SELECT 1 FROM context_items c WHERE c.conversation_id = :conversation_id AND c.summary_id = s.summary_id)
   AND NOT EXISTS (SELECT 1 FROM summary_parents p WHERE p.parent_summary_id = s.summary_id)
   AND NOT EXISTS (SELECT 1 FROM stale_summaries t WHERE t.summary_id = s.summary_id)
   AND NOT EXISTS (SELECT 1 FROM hidden_items h WHERE h.conversation_id = :conversation_id AND h.item = +s.summary_id)
 ORDER BY s.rowid DESC;
