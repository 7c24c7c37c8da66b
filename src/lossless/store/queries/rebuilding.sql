-- Derived values: positions of context items, sources of summaries, counters.

-- name: wrong_contexts
-- Conversations with a context item that is missing, of another conversation, duplicated, or hidden as well.
SELECT c.conversation_id FROM context_items c LEFT JOIN messages m USING (message_id) LEFT JOIN summaries s USING (summary_id)
 WHERE c.conversation_id <> coalesce(m.conversation_id, s.conversation_id, -1)
    OR c.item_type IS NOT iif(c.message_id IS NULL, 'summary', 'message')
UNION
SELECT conversation_id FROM context_items GROUP BY conversation_id, message_id, summary_id HAVING count(*) > 1;

-- name: kept
-- Items of a context that are in the archive, without duplicates and in order: id, ordinal, first seq, and whether it
-- is a system prompt or a notice, which have no position in the order of messages.
WITH RECURSIVE below (root, summary_id) AS (
    SELECT summary_id, summary_id FROM context_items WHERE conversation_id = :conversation_id AND summary_id IS NOT NULL
    UNION
    SELECT below.root, p.parent_summary_id FROM summary_parents p JOIN below USING (summary_id)
), starts (root, seq) AS (
    SELECT below.root, min(m.seq) FROM below JOIN summary_messages l USING (summary_id) JOIN messages m USING (message_id) GROUP BY 1
)
SELECT m.message_id, min(c.ordinal) AS place, m.seq, m.role = 'system' OR coalesce(x.preamble, 0) = 1
  FROM context_items c JOIN messages m USING (message_id) LEFT JOIN message_extras x USING (message_id)
 WHERE c.conversation_id = :conversation_id AND m.conversation_id = :conversation_id GROUP BY m.message_id
UNION ALL
SELECT s.summary_id, min(c.ordinal), coalesce(t.seq, 0), 0
  FROM context_items c JOIN summaries s USING (summary_id) LEFT JOIN starts t ON t.root = s.summary_id
 WHERE c.conversation_id = :conversation_id AND s.conversation_id = :conversation_id GROUP BY s.summary_id
 ORDER BY place;

-- name: lost_summaries
-- Summaries that are no source and have lost their position: none of their messages is anywhere else.
WITH RECURSIVE tops (summary_id) AS (
    SELECT summary_id FROM summaries s
     WHERE s.conversation_id = :conversation_id
       AND NOT EXISTS (SELECT 1 FROM summary_parents p WHERE p.parent_summary_id = s.summary_id)
       AND NOT EXISTS (SELECT 1 FROM context_items c WHERE c.conversation_id = :conversation_id AND c.summary_id = s.summary_id)
       AND NOT EXISTS (SELECT 1 FROM hidden_items h WHERE h.conversation_id = :conversation_id AND h.item = s.summary_id)
), below (root, summary_id) AS (
    SELECT summary_id, summary_id FROM tops
    UNION
    SELECT below.root, p.parent_summary_id FROM summary_parents p JOIN below USING (summary_id)
), covered (message_id) AS (
    SELECT message_id FROM context_items WHERE conversation_id = :conversation_id AND message_id IS NOT NULL
    UNION
    SELECT item FROM hidden_items WHERE conversation_id = :conversation_id AND typeof(item) = 'integer'
    UNION
    SELECT l.message_id FROM summary_messages l WHERE l.summary_id IN (
        WITH RECURSIVE reached (summary_id) AS (
            SELECT summary_id FROM context_items WHERE conversation_id = :conversation_id AND summary_id IS NOT NULL
            UNION
            SELECT p.parent_summary_id FROM summary_parents p JOIN reached USING (summary_id))
        SELECT summary_id FROM reached)
)
SELECT below.root, 0, min(m.seq), 0 FROM below JOIN summary_messages l USING (summary_id) JOIN messages m USING (message_id)
 GROUP BY below.root HAVING sum(m.message_id IN (SELECT message_id FROM covered)) = 0;

-- name: message
SELECT m.message_id, 0, m.seq, m.role = 'system' OR coalesce(x.preamble, 0) = 1
  FROM messages m LEFT JOIN message_extras x USING (message_id) WHERE m.message_id = :message_id;

-- name: without_sources
-- Summaries without sources whose fold is in the log.
SELECT s.summary_id FROM summaries s
 WHERE ((s.kind = 'leaf' AND NOT EXISTS (SELECT 1 FROM summary_messages l WHERE l.summary_id = s.summary_id))
     OR (s.kind = 'condensed' AND NOT EXISTS (SELECT 1 FROM summary_parents p WHERE p.summary_id = s.summary_id)))
   AND EXISTS (SELECT 1 FROM context_log g WHERE g.action = 'fold' AND json_valid(g.added) AND g.added ->> 0 = s.summary_id);

-- name: link_messages
INSERT OR IGNORE INTO summary_messages (summary_id, message_id, ordinal)
SELECT :summary_id, j.value, j.key FROM context_log g, json_each(g.removed) j
 WHERE g.action = 'fold' AND g.added ->> 0 = :summary_id AND j.type = 'integer'
   AND (SELECT kind FROM summaries WHERE summary_id = :summary_id) = 'leaf' AND j.value IN (SELECT message_id FROM messages);

-- name: link_summaries
INSERT OR IGNORE INTO summary_parents (summary_id, parent_summary_id, ordinal)
SELECT :summary_id, j.value, j.key FROM context_log g, json_each(g.removed) j
 WHERE g.action = 'fold' AND g.added ->> 0 = :summary_id AND j.type = 'text'
   AND (SELECT kind FROM summaries WHERE summary_id = :summary_id) = 'condensed' AND j.value IN (SELECT summary_id FROM summaries);

-- name: wrong_counters
SELECT i.conversation_id FROM ingest_state i
 WHERE i.seen <> i.stored + i.replayed + i.skipped
    OR (i.context_tokens IS NOT NULL AND i.context_seq IS (SELECT max(seq) FROM messages m WHERE m.conversation_id = i.conversation_id)
   AND i.context_tokens <> (SELECT coalesce(sum(coalesce(m.token_count, s.token_count)), 0) FROM context_items c
         LEFT JOIN messages m USING (message_id) LEFT JOIN summaries s USING (summary_id) WHERE c.conversation_id = i.conversation_id));

-- name: count
UPDATE ingest_state SET seen = stored + replayed + skipped, context_tokens = NULL, context_seq = NULL
 WHERE conversation_id = :conversation_id;
