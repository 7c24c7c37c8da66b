-- What ingest remembers between calls.

-- name: state
SELECT seen, stored, replayed, skipped, ambiguous, last_stored_at, blocked_at, blocked_reason, producers, revised, likely
  FROM ingest_state WHERE conversation_id = :conversation_id;

-- name: producers
SELECT producers FROM ingest_state WHERE conversation_id = :conversation_id;

-- name: count
INSERT INTO ingest_state (conversation_id, seen, stored, replayed, skipped, ambiguous, producers, last_stored_at,
                          context_tokens, context_seq, context_extra, revised, likely)
VALUES (:conversation_id, :seen, :stored, :replayed, :skipped, :ambiguous, :producers, :stored_at,
        CASE WHEN :last_seq = :stored THEN :tokens END, :last_seq, CASE WHEN :last_seq = :stored THEN :extra END,
        :revised, :likely)
    ON CONFLICT (conversation_id) DO UPDATE SET
       seen = seen + excluded.seen, stored = stored + excluded.stored, replayed = replayed + excluded.replayed,
       skipped = skipped + excluded.skipped, ambiguous = ambiguous + excluded.ambiguous,
       revised = revised + excluded.revised, likely = likely + excluded.likely,
       producers = producers | excluded.producers,
       last_stored_at = coalesce(excluded.last_stored_at, last_stored_at),
       context_tokens = CASE WHEN :stored = 0 OR context_seq = :last_seq - :stored THEN context_tokens + :tokens END,
       context_extra = CASE WHEN :stored = 0 OR context_seq = :last_seq - :stored THEN context_extra + :extra END,
       context_seq = coalesce(:last_seq, context_seq),
       blocked_at = iif(:fits, NULL, blocked_at), blocked_reason = iif(:fits, NULL, blocked_reason);

-- name: block
INSERT INTO ingest_state (conversation_id, blocked_at, blocked_reason) VALUES (:conversation_id, :at, :reason)
    ON CONFLICT (conversation_id) DO UPDATE SET
       blocked_at = coalesce(blocked_at, excluded.blocked_at), blocked_reason = excluded.blocked_reason;

-- name: turn_key
SELECT digest FROM turn_keys WHERE conversation_id = :conversation_id AND turn_key = :key;

-- name: remember_key
INSERT OR IGNORE INTO turn_keys (conversation_id, turn_key, message_count, at, digest)
VALUES (:conversation_id, :key, :count, :now, :digest);

-- name: window
SELECT first_message_id, last_message_id, length, chain FROM last_windows WHERE conversation_id = :conversation_id;

-- name: set_window
INSERT INTO last_windows (conversation_id, first_message_id, last_message_id, length, chain, at)
VALUES (:conversation_id, :first, :last, :length, :chain, :now)
    ON CONFLICT (conversation_id) DO UPDATE SET
       first_message_id = excluded.first_message_id, last_message_id = excluded.last_message_id,
       length = excluded.length, chain = excluded.chain, at = excluded.at;

-- name: advancement
-- Upstream's own record of a committed turn, where its table is there.
INSERT OR IGNORE INTO turn_advancements
       (advancement_key, payload_hash, session_id, session_key, admission_entry_id, terminal_entry_id, message_count)
VALUES (:key, :payload_hash, :session_id, :session_key, :first_entry, :last_entry, :count);

-- name: known_advancement
SELECT payload_hash FROM turn_advancements WHERE advancement_key = :key;

-- name: has_advancements
SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'turn_advancements';

-- name: context_tokens
SELECT context_tokens, context_extra FROM ingest_state
 WHERE conversation_id = :conversation_id
   AND context_seq IS (SELECT seq FROM messages WHERE conversation_id = :conversation_id ORDER BY seq DESC LIMIT 1);

-- name: set_context_tokens
-- Messages that nobody has noted yet are another program's: the newest tells when it stored.
INSERT INTO ingest_state (conversation_id, context_tokens, context_extra, context_seq, last_stored_at)
SELECT :conversation_id, :tokens, :extra, max(seq), strftime('%Y-%m-%dT%H:%M:%fZ', created_at)
  FROM messages WHERE conversation_id = :conversation_id
    ON CONFLICT (conversation_id) DO UPDATE SET
       context_tokens = excluded.context_tokens, context_extra = excluded.context_extra,
       context_seq = excluded.context_seq,
       last_stored_at = CASE WHEN context_seq IS excluded.context_seq THEN last_stored_at
                             ELSE nullif(max(coalesce(last_stored_at, ''), coalesce(excluded.last_stored_at, '')), '') END;

-- name: forget_context_tokens
UPDATE ingest_state SET context_tokens = NULL, context_extra = NULL WHERE conversation_id = :conversation_id;
