-- Contexts that lossless-claw has cleared for `/new`: it deletes their items and records it in its own state.

-- name: stamp
-- When it last cleared this context, if we have logged nothing as new since.
SELECT b.soft_reset_pruned_at FROM conversation_bootstrap_state b
 WHERE b.conversation_id = :conversation_id AND julianday(b.soft_reset_pruned_at) IS NOT NULL
   AND datetime(b.soft_reset_pruned_at) > coalesce((SELECT max(datetime(g.at)) FROM context_log g
         WHERE g.conversation_id = b.conversation_id AND g.action = 'new'), '');

-- name: stamped
SELECT b.conversation_id FROM conversation_bootstrap_state b
 WHERE julianday(b.soft_reset_pruned_at) IS NOT NULL
   AND datetime(b.soft_reset_pruned_at) > coalesce((SELECT max(datetime(g.at)) FROM context_log g
         WHERE g.conversation_id = b.conversation_id AND g.action = 'new'), '')
 ORDER BY b.conversation_id;

-- name: has_pending
-- Tables of lossless-claw 1.0, which does not record when it cleared a context.
SELECT 1 FROM main.sqlite_master WHERE type = 'table' AND name = 'pending_compaction_batches';

-- name: written_in
-- The conversations of some messages and summaries.
SELECT conversation_id FROM messages WHERE message_id IN (SELECT value FROM json_each(:message_ids))
UNION
SELECT conversation_id FROM summaries WHERE summary_id IN (SELECT value FROM json_each(:summary_ids));

-- name: older_in_context
-- Whether a message older than the last of some is in the context itself: then it was not cleared.
SELECT 1 FROM context_items c JOIN messages m USING (message_id)
 WHERE c.conversation_id = :conversation_id
   AND m.seq < (SELECT max(seq) FROM messages WHERE message_id IN (SELECT value FROM json_each(:ids))) LIMIT 1;

-- name: newer_messages
SELECT 1 FROM messages WHERE message_id IN (SELECT value FROM json_each(:ids)) AND datetime(created_at) > datetime(:at) LIMIT 1;
