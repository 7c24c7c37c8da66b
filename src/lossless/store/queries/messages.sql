-- Messages. Rows are only added; ids of the host may be set later. Items of `hidden_items` are numbers and texts: the
-- unary + lets its index find one of them.

-- name: next_places
-- The id, seq and context ordinal of the next message of a conversation.
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'messages'), 0) + 1,
       coalesce((SELECT max(seq) FROM messages WHERE conversation_id = :conversation_id), 0) + 1,
       coalesce((SELECT max(ordinal) FROM context_items WHERE conversation_id = :conversation_id), -1) + 1;

-- name: insert
INSERT INTO messages (message_id, conversation_id, seq, role, content, token_count, identity_hash,
                      openclaw_sender_metadata, transcript_entry_id, created_at, stable_event_key, large_content)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: insert_extras
INSERT INTO message_extras (message_id, fingerprint, digest, claimed, preamble, format, skeleton, budget_tokens)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: insert_part
INSERT INTO message_parts (part_id, message_id, session_id, part_type, ordinal, text_content, tool_call_id, tool_name,
                           tool_input, tool_output, metadata)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: insert_context
-- Messages from a seq on, at the end of the context.
INSERT INTO context_items (conversation_id, ordinal, item_type, message_id, created_at)
SELECT conversation_id, ?1 + seq, 'message', message_id, ?2 FROM messages WHERE conversation_id = ?3 AND seq >= ?4;

-- name: known_entries
SELECT m.transcript_entry_id, m.message_id, x.fingerprint, m.transcript_entry_id, coalesce(x.claimed, 1), m.role, m.seq,
       coalesce(x.preamble, 0)
  FROM messages m LEFT JOIN message_extras x USING (message_id)
 WHERE m.conversation_id = :conversation_id AND m.transcript_entry_id IN (SELECT value FROM json_each(:ids));

-- name: made_up
SELECT message_id, transcript_entry_id FROM messages
 WHERE conversation_id = :conversation_id AND transcript_entry_id >= '#' AND transcript_entry_id < '$'
 ORDER BY message_id;

-- name: known_events
SELECT m.stable_event_key, m.message_id, x.fingerprint, m.transcript_entry_id, coalesce(x.claimed, 1), m.role, m.seq,
       coalesce(x.preamble, 0)
  FROM messages m LEFT JOIN message_extras x USING (message_id)
 WHERE m.conversation_id = :conversation_id AND m.stable_event_key IN (SELECT value FROM json_each(:ids));

-- name: called_after
-- Calls that were repeated after their stored result.
SELECT DISTINCT r.value ->> 0
  FROM json_each(:results) r
  JOIN messages m ON m.conversation_id = :conversation_id AND m.message_id > r.value ->> 1 AND m.role = 'assistant'
  JOIN message_parts p ON p.message_id = m.message_id
 WHERE p.tool_call_id = r.value ->> 0 AND p.tool_input IS NOT NULL;

-- name: twins
-- Rows with the identity and the second of each pair.
SELECT DISTINCT m.message_id
  FROM json_each(:pairs) p
 CROSS JOIN messages m INDEXED BY messages_conv_identity_hash_idx
 WHERE m.conversation_id = :conversation_id AND m.identity_hash = p.value ->> 0 AND m.created_at = p.value ->> 1
   AND m.transcript_entry_id IS NOT NULL;

-- name: newest
SELECT message_id FROM messages WHERE conversation_id = :conversation_id ORDER BY seq DESC LIMIT 1;

-- name: last_seq
SELECT coalesce(max(seq), 0) FROM messages WHERE conversation_id = :conversation_id;

-- name: newest_users
-- The newest user message of each conversation.
SELECT * FROM (
    SELECT c.value, (SELECT m.message_id FROM messages m
                      WHERE m.conversation_id = c.value AND m.role = 'user' ORDER BY m.seq DESC LIMIT 1) AS message_id
      FROM json_each(:ids) c) WHERE message_id IS NOT NULL;

-- name: newest_said
-- Leading system prompts of windows have no position in the order of messages.
SELECT m.message_id FROM messages m LEFT JOIN message_extras x USING (message_id)
 WHERE m.conversation_id = :conversation_id AND coalesce(x.preamble, 0) = 0 ORDER BY m.seq DESC LIMIT 1;

-- name: tail
-- The newest visible rows, in order, for alignment. Rows that another program has just written have no extras yet.
SELECT * FROM (SELECT m.message_id, x.fingerprint, m.transcript_entry_id, coalesce(x.claimed, 1), m.role, m.seq
  FROM messages m
  LEFT JOIN message_extras x USING (message_id)
 WHERE m.conversation_id = :conversation_id
   AND coalesce(x.preamble, 0) = 0
   AND NOT EXISTS (SELECT 1 FROM hidden_items h
                    WHERE h.conversation_id = m.conversation_id AND h.item = +m.message_id AND h.cause IN ('branch', 'superseded', 'removed', 'transient'))
 ORDER BY m.seq DESC LIMIT :limit)
 ORDER BY seq;

-- name: entry_ids
SELECT message_id, transcript_entry_id FROM messages
 WHERE message_id IN (SELECT value FROM json_each(:ids)) AND transcript_entry_id IS NOT NULL;

-- name: tail_rows
-- The visible ones of these rows, for alignment, in the given order.
SELECT m.message_id, x.fingerprint, m.transcript_entry_id, coalesce(x.claimed, 1), m.role, m.seq
  FROM json_each(:ids) j CROSS JOIN messages m ON m.message_id = j.value
  LEFT JOIN message_extras x USING (message_id)
 WHERE m.conversation_id = :conversation_id
   AND coalesce(x.preamble, 0) = 0
   AND NOT EXISTS (SELECT 1 FROM hidden_items h
                    WHERE h.conversation_id = m.conversation_id AND h.item = +m.message_id
                      AND h.cause IN ('branch', 'superseded', 'removed', 'transient'))
 ORDER BY j.key;

-- name: visible
-- How many rows are visible, up to a limit.
SELECT count(*) FROM (
    SELECT 1 FROM messages m
      LEFT JOIN message_extras x USING (message_id)
     WHERE m.conversation_id = :conversation_id
       AND coalesce(x.preamble, 0) = 0
       AND NOT EXISTS (SELECT 1 FROM hidden_items h
                        WHERE h.conversation_id = m.conversation_id AND h.item = +m.message_id AND h.cause IN ('branch', 'superseded', 'removed', 'transient'))
     LIMIT :limit);

-- name: run_from
-- All visible rows from a seq on, oldest first.
SELECT m.message_id, x.fingerprint, m.transcript_entry_id, coalesce(x.claimed, 1), m.role, m.seq
  FROM messages m
  LEFT JOIN message_extras x USING (message_id)
 WHERE m.conversation_id = :conversation_id AND m.seq >= :seq
   AND coalesce(x.preamble, 0) = 0
   AND NOT EXISTS (SELECT 1 FROM hidden_items h
                    WHERE h.conversation_id = m.conversation_id AND h.item = +m.message_id AND h.cause IN ('branch', 'superseded', 'removed', 'transient'))
 ORDER BY m.seq;

-- name: stamp_entry
UPDATE messages SET transcript_entry_id = ?2 WHERE message_id = ?1;

-- name: clear_entries
UPDATE messages SET transcript_entry_id = NULL WHERE message_id IN (SELECT value FROM json_each(:ids));

-- name: claim
UPDATE message_extras SET claimed = 1 WHERE message_id IN (SELECT value FROM json_each(:ids));

-- name: by_ids
SELECT m.message_id, m.conversation_id, m.seq, m.created_at, m.transcript_entry_id, m.large_content, m.openclaw_sender_metadata,
       m.role, m.content, m.token_count, m.stable_event_key, x.format, x.skeleton
  FROM messages m LEFT JOIN message_extras x USING (message_id)
 WHERE m.message_id IN (SELECT value FROM json_each(:ids))
   AND (:within IS NULL OR m.conversation_id IN (SELECT value FROM json_each(:within)));

-- name: parts_by_ids
SELECT message_id, ordinal, part_type, text_content, tool_call_id, tool_name, tool_input, tool_output, coalesce(metadata, '{}')
  FROM message_parts WHERE message_id IN (SELECT value FROM json_each(:ids))
 ORDER BY message_id, ordinal;

-- name: ids_in_order
SELECT message_id FROM messages WHERE conversation_id = :conversation_id AND seq > :after ORDER BY seq LIMIT :limit;

-- name: abandoned_from
-- Rows that left the context on a branch, from a seq on, oldest first.
SELECT m.message_id, x.fingerprint, m.transcript_entry_id, coalesce(x.claimed, 1), m.role, m.seq
  FROM hidden_items h
  JOIN messages m ON m.message_id = h.item
  LEFT JOIN message_extras x USING (message_id)
 WHERE h.conversation_id = :conversation_id AND h.cause IN ('branch', 'removed', 'transient') AND m.seq >= :seq
 ORDER BY m.seq;

-- name: seqs_of_identity
-- Positions of messages with one identity, newest first, including hidden ones. The unary + avoids a walk over all
-- seqs.
SELECT seq FROM messages WHERE conversation_id = :conversation_id AND identity_hash = :identity ORDER BY +seq DESC LIMIT :limit;

-- name: referring
-- Messages from a seq on with the id of a file in their text, newest first; none in a conversation without files.
SELECT message_id FROM messages
 WHERE conversation_id = :conversation_id AND seq >= :first AND instr(content, ': file_') > 0
   AND EXISTS (SELECT 1 FROM large_files WHERE conversation_id = :conversation_id)
 ORDER BY seq DESC LIMIT :limit;

-- name: seqs_in_context
SELECT m.seq FROM messages m
 WHERE m.conversation_id = :conversation_id AND m.identity_hash IN (SELECT value FROM json_each(:identities))
   AND EXISTS (SELECT 1 FROM context_items c
                WHERE c.conversation_id = :conversation_id AND c.message_id = m.message_id)
 ORDER BY +m.seq;

-- name: context_run
SELECT m.message_id, x.fingerprint, m.transcript_entry_id, coalesce(x.claimed, 1), m.role, m.seq
  FROM messages m LEFT JOIN message_extras x USING (message_id)
 WHERE m.conversation_id = :conversation_id AND m.seq BETWEEN :first AND :last
   AND EXISTS (SELECT 1 FROM context_items c
                WHERE c.conversation_id = :conversation_id AND c.message_id = m.message_id)
 ORDER BY m.seq;

-- name: preamble
-- Equal leading system prompts and notices of windows, newest first.
SELECT m.message_id FROM messages m JOIN message_extras x USING (message_id)
 WHERE m.conversation_id = :conversation_id AND m.identity_hash = :identity AND x.preamble = 1 AND x.fingerprint = :fingerprint
 ORDER BY +m.seq DESC LIMIT 1;
