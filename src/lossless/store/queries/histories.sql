-- What other conversations have of a transcript: closed earlier, permanently deleted, or forked from.

-- name: former
-- Conversations that were closed before another one began: of its key, or of its run without one; oldest first.
-- Quarantined ones are not part of their history.
SELECT conversation_id FROM conversations
 WHERE active = 0 AND conversation_id < :id AND coalesce(archive_cause, '') NOT IN ('quarantined', 'refused')
   AND (session_key = :key OR (:key IS NULL AND session_key IS NULL AND session_id = :run))
 ORDER BY conversation_id;

-- name: following
SELECT conversation_id FROM conversation_bootstrap_state
 WHERE session_header_id = :name OR session_file_path = :name ORDER BY conversation_id;

-- name: known
SELECT m.transcript_entry_id, m.conversation_id, substr(coalesce(x.fingerprint, x''), 1, :size), m.message_id
  FROM messages m LEFT JOIN message_extras x USING (message_id)
 WHERE m.conversation_id IN (SELECT value FROM json_each(:ids))
   AND m.transcript_entry_id IN (SELECT value FROM json_each(:entries))
 ORDER BY m.message_id;

-- name: stored_refs
-- All messages of a conversation, in order, without leading system prompts of windows.
SELECT m.message_id, x.fingerprint, m.transcript_entry_id, m.created_at, coalesce(x.claimed, 1),
       m.message_id IN (SELECT item FROM hidden_items
                         WHERE conversation_id = :conversation_id AND cause IN ('branch', 'superseded', 'removed', 'transient')),
       m.role
  FROM messages m LEFT JOIN message_extras x USING (message_id)
 WHERE m.conversation_id = :conversation_id AND coalesce(x.preamble, 0) = 0
 ORDER BY m.seq;

-- name: life
-- The file that a conversation followed, and when it was closed.
SELECT b.session_file_path, c.archived_at
  FROM conversations c LEFT JOIN conversation_bootstrap_state b USING (conversation_id)
 WHERE c.conversation_id = :conversation_id;

-- name: bury
INSERT OR REPLACE INTO pruned_histories (number, session_key, path, header_id, at, marks)
SELECT c.conversation_id, c.session_key, nullif(b.session_file_path, ''), b.session_header_id, datetime(:now), :marks
  FROM conversations c LEFT JOIN conversation_bootstrap_state b USING (conversation_id)
 WHERE c.conversation_id = :conversation_id;

-- name: pruned
SELECT number, path, marks FROM pruned_histories
 WHERE session_key = :key OR path = nullif(:path, '') OR header_id = :header_id ORDER BY number;

-- name: forget
DELETE FROM pruned_histories WHERE session_key = :key OR path = nullif(:path, '') OR header_id = :header_id;

-- name: rely
INSERT OR IGNORE INTO fork_sources (conversation_id, source_id) SELECT :conversation_id, value FROM json_each(:ids);
