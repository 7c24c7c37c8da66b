-- What the model sees: an ordered list of messages and summaries. Ordinals only grow and may have gaps; only their
-- order matters.

-- name: items
SELECT c.ordinal, c.message_id, c.summary_id, m.role, coalesce(m.token_count, s.token_count), m.seq, s.depth,
       coalesce(x.budget_tokens, y.budget_tokens)
  FROM context_items c
  LEFT JOIN messages m ON m.message_id = c.message_id
  LEFT JOIN message_extras x ON x.message_id = c.message_id
  LEFT JOIN summaries s ON s.summary_id = c.summary_id
  LEFT JOIN summary_extras y ON y.summary_id = c.summary_id
 WHERE c.conversation_id = :conversation_id
 ORDER BY c.ordinal;

-- name: tokens
SELECT coalesce(sum(coalesce(m.token_count, s.token_count)), 0), count(*)
  FROM context_items c
  LEFT JOIN messages m ON m.message_id = c.message_id
  LEFT JOIN summaries s ON s.summary_id = c.summary_id
 WHERE c.conversation_id = :conversation_id;

-- name: budget_tokens
SELECT coalesce(sum(max(coalesce(x.budget_tokens, y.budget_tokens, 0), coalesce(m.token_count, s.token_count))), 0)
  FROM context_items c
  LEFT JOIN messages m ON m.message_id = c.message_id
  LEFT JOIN message_extras x ON x.message_id = c.message_id
  LEFT JOIN summaries s ON s.summary_id = c.summary_id
  LEFT JOIN summary_extras y ON y.summary_id = c.summary_id
 WHERE c.conversation_id = :conversation_id;

-- name: longer_than
SELECT m.role, max(coalesce(x.budget_tokens, 0), m.token_count) AS size,
       c.ordinal < coalesce((SELECT max(i.ordinal) FROM context_items i JOIN messages u ON u.message_id = i.message_id
                              WHERE i.conversation_id = :conversation_id AND u.role = 'user'), 0)
  FROM context_items c
  JOIN messages m ON m.message_id = c.message_id
  LEFT JOIN message_extras x ON x.message_id = c.message_id
 WHERE c.conversation_id = :conversation_id AND size > :tokens;

-- name: counts
SELECT count(*), count(summary_id) FROM context_items WHERE conversation_id = :conversation_id;

-- name: remove_range
-- Remove a folded run from the context. The messages themselves stay.
DELETE FROM context_items WHERE conversation_id = :conversation_id AND ordinal BETWEEN :first AND :last;

-- name: next_after
SELECT min(ordinal) FROM context_items WHERE conversation_id = :conversation_id AND ordinal >= :first;

-- name: range
SELECT ordinal, message_id, summary_id FROM context_items
 WHERE conversation_id = :conversation_id AND ordinal BETWEEN :first AND :last ORDER BY ordinal;

-- name: remove_messages
DELETE FROM context_items
 WHERE conversation_id = :conversation_id AND message_id IN (SELECT value FROM json_each(:items));

-- name: remove_summaries
DELETE FROM context_items
 WHERE conversation_id = :conversation_id AND summary_id IN (SELECT value FROM json_each(:items));

-- name: put
INSERT INTO context_items (conversation_id, ordinal, item_type, message_id, summary_id, created_at)
VALUES (:conversation_id, :ordinal, iif(typeof(:item) = 'text', 'summary', 'message'),
        iif(typeof(:item) = 'text', NULL, :item), iif(typeof(:item) = 'text', :item, NULL), datetime(:now));

-- name: revivable
-- Which of these messages are in the context (1) or left it on a branch (0).
SELECT j.value, j.value IN (SELECT message_id FROM context_items WHERE conversation_id = :conversation_id AND message_id IS NOT NULL) AS stands
  FROM json_each(:items) j
 WHERE stands
    OR j.value IN (SELECT item FROM hidden_items WHERE conversation_id = :conversation_id AND cause IN ('branch', 'removed', 'transient'))
 ORDER BY j.key;

-- name: covered
-- Which of these messages are under a summary of the context, at any depth.
WITH RECURSIVE above (message_id, summary_id) AS (
    SELECT message_id, summary_id FROM summary_messages WHERE message_id IN (SELECT value FROM json_each(:items))
    UNION
    SELECT above.message_id, p.summary_id FROM summary_parents p JOIN above ON p.parent_summary_id = above.summary_id
)
SELECT DISTINCT above.message_id FROM above JOIN context_items c USING (summary_id) WHERE c.conversation_id = :conversation_id;

-- name: above
-- The first summary of the context over any of these messages.
WITH RECURSIVE above (summary_id) AS (
    SELECT summary_id FROM summary_messages WHERE message_id IN (SELECT value FROM json_each(:items))
    UNION
    SELECT p.summary_id FROM summary_parents p JOIN above ON p.parent_summary_id = above.summary_id
)
SELECT c.ordinal, c.summary_id FROM above JOIN context_items c USING (summary_id)
 WHERE c.conversation_id = :conversation_id ORDER BY c.ordinal LIMIT 1;

-- name: return_from_branch
DELETE FROM hidden_items
 WHERE conversation_id = :conversation_id AND cause IN ('branch', 'removed', 'transient') AND item IN (SELECT value FROM json_each(:items));

-- name: shift
-- Make space before an ordinal: first out of the way, then to the new ordinals.
UPDATE context_items SET ordinal = -1 - ordinal - :by WHERE conversation_id = :conversation_id AND ordinal >= :first;

-- name: shift_back
UPDATE context_items SET ordinal = -1 - ordinal WHERE conversation_id = :conversation_id AND ordinal < 0;

-- name: numbered_before
-- The ordinal of the newest item that keeps its number, because so many follow it.
SELECT ordinal FROM context_items WHERE conversation_id = :conversation_id ORDER BY ordinal DESC LIMIT 1 OFFSET :most;

-- name: span
-- How many items follow an ordinal, and the ordinal of the newest.
SELECT count(*), coalesce(max(ordinal), :before) FROM context_items WHERE conversation_id = :conversation_id AND ordinal > :before;

-- name: close_gaps
-- Every item at its ordinal, via negative numbers, as ordinals are unique.
UPDATE context_items SET ordinal = -1 - place
  FROM (SELECT rowid AS id, :before + row_number() OVER (ORDER BY ordinal) AS place FROM context_items
         WHERE conversation_id = :conversation_id AND ordinal > :before) dense
 WHERE context_items.rowid = dense.id AND conversation_id = :conversation_id AND ordinal <> place;

-- name: ordinals
SELECT message_id, ordinal FROM context_items
 WHERE conversation_id = :conversation_id AND message_id IS NOT NULL ORDER BY ordinal DESC LIMIT :limit;

-- name: first_of
-- The ordinal of the first of these messages that is in the context.
SELECT min(ordinal) FROM context_items
 WHERE conversation_id = :conversation_id AND message_id IN (SELECT value FROM json_each(:items));

-- name: previous_ordinal
SELECT ordinal FROM context_items WHERE conversation_id = :conversation_id AND ordinal < :ordinal ORDER BY ordinal DESC LIMIT 1;

-- name: next_ordinal
SELECT coalesce(max(ordinal), -1) + 1 FROM context_items WHERE conversation_id = :conversation_id;

-- name: hide
INSERT INTO hidden_items (conversation_id, item, cause, at)
SELECT :conversation_id, value, :cause, :at FROM json_each(:items) WHERE TRUE
    ON CONFLICT (conversation_id, item) DO UPDATE SET cause = excluded.cause, at = excluded.at;

-- name: unhide
DELETE FROM hidden_items WHERE conversation_id = :conversation_id AND item = :item;

-- name: has_returned
-- Whether one of the last branches restored any of the messages that leave now, and removed any that return.
SELECT 1 FROM (SELECT removed, added FROM context_log WHERE conversation_id = :conversation_id AND action = 'branch'
                ORDER BY log_id DESC LIMIT 64) g
 WHERE EXISTS (SELECT 1 FROM json_each(g.added) a JOIN json_each(:left) l ON l.value = a.value)
   AND EXISTS (SELECT 1 FROM json_each(g.removed) r JOIN json_each(:back) b ON b.value = r.value) LIMIT 1;

-- name: join_revision
-- Removes the newest change if it is a recent revision of few messages.
DELETE FROM context_log
 WHERE log_id = (SELECT max(log_id) FROM context_log WHERE conversation_id = :conversation_id)
   AND action = 'revise' AND at >= :since AND json_valid(added) AND json_array_length(added) BETWEEN 1 AND :most - 1
RETURNING added, tokens_before;

-- name: log
INSERT INTO context_log (conversation_id, at, actor, action, cause, removed, added, ordinal, tokens_before, tokens_after, detail)
VALUES (:conversation_id, :at, :actor, :action, :cause, :removed, :added, :ordinal, :tokens_before, :tokens_after, :detail);

-- name: saved
-- What folds removed from each context, by the model of their summaries.
SELECT coalesce(s.model, 'unknown'), l.conversation_id, count(*), sum(l.tokens_before - l.tokens_after)
  FROM context_log l LEFT JOIN summaries s ON s.summary_id = l.added ->> 0
 WHERE l.action = 'fold' AND l.at >= :since AND (:conversation_id IS NULL OR l.conversation_id = :conversation_id)
 GROUP BY 1, 2 ORDER BY 1, 2;

-- name: head
SELECT c.ordinal, c.message_id, m.role, x.fingerprint, x.preamble
  FROM context_items c
  LEFT JOIN messages m ON m.message_id = c.message_id
  LEFT JOIN message_extras x ON x.message_id = c.message_id
 WHERE c.conversation_id = :conversation_id ORDER BY c.ordinal LIMIT :limit;

-- name: call_ids
SELECT p.message_id, p.tool_call_id FROM context_items c JOIN message_parts p ON p.message_id = c.message_id
 WHERE c.conversation_id = :conversation_id AND p.tool_call_id IS NOT NULL;

-- name: newest_items
SELECT c.ordinal, c.message_id, c.summary_id, m.role, coalesce(m.token_count, s.token_count), m.seq, s.depth,
       coalesce(x.budget_tokens, y.budget_tokens)
  FROM context_items c
  LEFT JOIN messages m ON m.message_id = c.message_id
  LEFT JOIN message_extras x ON x.message_id = c.message_id
  LEFT JOIN summaries s ON s.summary_id = c.summary_id
  LEFT JOIN summary_extras y ON y.summary_id = c.summary_id
 WHERE c.conversation_id = :conversation_id AND c.ordinal < :ordinal
 ORDER BY c.ordinal DESC LIMIT :limit;

-- name: newest_user
SELECT c.ordinal FROM context_items c JOIN messages m USING (message_id)
 WHERE c.conversation_id = :conversation_id AND m.role = 'user' ORDER BY c.ordinal DESC LIMIT 1;

-- name: summaries_between
SELECT c.ordinal, NULL, c.summary_id, NULL, s.token_count, NULL, s.depth, y.budget_tokens
  FROM context_items c
  LEFT JOIN summaries s ON s.summary_id = c.summary_id
  LEFT JOIN summary_extras y ON y.summary_id = c.summary_id
 WHERE c.conversation_id = :conversation_id AND c.ordinal >= :first AND c.ordinal < :ordinal AND c.summary_id IS NOT NULL
 ORDER BY c.ordinal;

-- name: messages_between
SELECT count(*), coalesce(sum(m.token_count), 0), coalesce(sum(max(coalesce(x.budget_tokens, 0), m.token_count)), 0)
  FROM context_items c JOIN messages m USING (message_id)
  LEFT JOIN message_extras x USING (message_id)
 WHERE c.conversation_id = :conversation_id AND c.ordinal >= :first AND c.ordinal < :ordinal;

-- name: prompts_before
-- The leading system prompts of a context.
SELECT c.ordinal, c.message_id, NULL, m.role, m.token_count, m.seq, NULL, x.budget_tokens
  FROM context_items c JOIN messages m USING (message_id)
  LEFT JOIN message_extras x USING (message_id)
 WHERE c.conversation_id = :conversation_id AND c.ordinal < :ordinal AND m.role = 'system'
   AND c.ordinal < coalesce((
       SELECT o.ordinal FROM context_items o LEFT JOIN messages n USING (message_id)
        WHERE o.conversation_id = :conversation_id AND n.role IS NOT 'system' ORDER BY o.ordinal LIMIT 1), :ordinal)
 ORDER BY c.ordinal;

-- name: at
-- The current items at these ordinals.
SELECT c.ordinal, c.message_id, c.summary_id, m.role, coalesce(m.token_count, s.token_count), m.seq, s.depth,
       coalesce(x.budget_tokens, y.budget_tokens)
  FROM context_items c
  LEFT JOIN messages m ON m.message_id = c.message_id
  LEFT JOIN message_extras x ON x.message_id = c.message_id
  LEFT JOIN summaries s ON s.summary_id = c.summary_id
  LEFT JOIN summary_extras y ON y.summary_id = c.summary_id
 WHERE c.conversation_id = :conversation_id AND c.ordinal IN (SELECT value FROM json_each(:ordinals))
 ORDER BY c.ordinal;

-- name: version
-- A value that changes with every change of a context except an append, by any program.
SELECT (SELECT max(log_id) FROM context_log WHERE conversation_id = :conversation_id),
       (SELECT rowid FROM summaries WHERE conversation_id = :conversation_id ORDER BY created_at DESC, rowid DESC LIMIT 1);

-- name: summary_texts
SELECT summary_id, content FROM summaries WHERE summary_id IN (SELECT value FROM json_each(:ids));

-- name: keep_message_estimate
UPDATE message_extras SET budget_tokens = :tokens WHERE message_id = :id;

-- name: keep_summary_estimate
UPDATE summary_extras SET budget_tokens = :tokens WHERE summary_id = :id;

-- name: sketches
SELECT m.message_id, m.role, m.content, m.token_count, m.stable_event_key, m.large_content, x.format, x.skeleton
  FROM messages m LEFT JOIN message_extras x USING (message_id)
 WHERE m.message_id IN (SELECT value FROM json_each(:ids));

-- name: parts
SELECT message_id, ordinal, part_type, text_content, tool_call_id, tool_name, tool_input, tool_output,
       coalesce(metadata, '{}')
  FROM message_parts WHERE message_id IN (SELECT value FROM json_each(:ids))
 ORDER BY message_id, ordinal;

-- name: last_fold
SELECT max(at) FROM context_log WHERE conversation_id = :conversation_id AND action = 'fold';

-- name: notes
-- The first one of a message comes last.
SELECT message_id, metadata FROM message_parts
 WHERE message_id IN (SELECT value FROM json_each(:ids)) AND instr(coalesce(metadata, ''), '"restore":') > 0
 ORDER BY message_id, ordinal DESC;

-- name: clear
DELETE FROM context_items WHERE conversation_id = :conversation_id;
