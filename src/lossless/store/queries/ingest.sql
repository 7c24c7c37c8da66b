-- State of ingest between calls.

-- name: state
SELECT seen, stored, replayed, skipped, ambiguous, last_stored_at, blocked_at, blocked_reason, producers, revised, likely
  FROM ingest_state WHERE conversation_id = :conversation_id;

-- name: producers
SELECT producers FROM ingest_state WHERE conversation_id = :conversation_id;

-- name: count
-- Values: conversation_id, seen, last_seq, stored_at, stored, replayed, skipped, ambiguous, producers, fits, tokens,
-- extra, revised, likely.
INSERT INTO ingest_state (conversation_id, seen, stored, replayed, skipped, ambiguous, producers, last_stored_at,
                          context_tokens, context_seq, context_extra, revised, likely)
VALUES (?1, ?2, ?5, ?6, ?7, ?8, ?9, ?4,
        CASE WHEN ?3 = ?5 THEN ?11 END, ?3, CASE WHEN ?3 = ?5 THEN ?12 END,
        ?13, ?14)
    ON CONFLICT (conversation_id) DO UPDATE SET
       seen = seen + excluded.seen, stored = stored + excluded.stored, replayed = replayed + excluded.replayed,
       skipped = skipped + excluded.skipped, ambiguous = ambiguous + excluded.ambiguous,
       revised = revised + excluded.revised, likely = likely + excluded.likely,
       producers = producers | excluded.producers,
       last_stored_at = coalesce(excluded.last_stored_at, last_stored_at),
       context_tokens = CASE WHEN ?5 = 0 OR context_seq = ?3 - ?5 THEN context_tokens + ?11 END,
       context_extra = CASE WHEN ?5 = 0 OR context_seq = ?3 - ?5 THEN context_extra + ?12 END,
       context_seq = coalesce(?3, context_seq),
       blocked_at = iif(?10, NULL, blocked_at), blocked_reason = iif(?10, NULL, blocked_reason);

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
SELECT first_message_id, last_message_id, length, chain, began FROM last_windows WHERE conversation_id = :conversation_id;

-- name: recent_windows
-- The newest windows of active conversations whose key is a base, a colon and a digest; at most `most` are read.
SELECT c.session_key, w.conversation_id, substr(w.chain, 1, 8 * w.length)
  FROM (SELECT conversation_id, last_message_id, length, chain FROM last_windows
         ORDER BY last_message_id DESC LIMIT :most) w
  JOIN conversations c ON c.conversation_id = w.conversation_id
 WHERE (c.active = 1 OR c.archive_cause = 'tab') AND substr(c.session_key, 1, length(:base) + 1) = :base || ':'
   AND substr(c.session_key, length(:base) + 2, 16) NOT GLOB '*[^0-9a-f]*' AND length(c.session_key) > length(:base) + 16
 ORDER BY w.last_message_id DESC LIMIT :limit;

-- name: set_window
INSERT INTO last_windows (conversation_id, first_message_id, last_message_id, length, chain, at, began)
VALUES (:conversation_id, :first, :last, :length, :chain, :now,
        (SELECT max(seq) FROM messages WHERE conversation_id = :conversation_id))
    ON CONFLICT (conversation_id) DO UPDATE SET
       first_message_id = excluded.first_message_id, last_message_id = excluded.last_message_id,
       length = excluded.length, chain = excluded.chain, at = excluded.at;

-- name: advancement
-- Upstream's own record of a committed turn, if its table exists.
INSERT OR IGNORE INTO turn_advancements
       (advancement_key, payload_hash, session_id, session_key, admission_entry_id, terminal_entry_id, message_count)
VALUES (:key, :payload_hash, :session_id, :session_key, :first_entry, :last_entry, :count);

-- name: known_advancement
SELECT t.payload_hash FROM turn_advancements t JOIN conversations c ON c.conversation_id = :conversation_id
 WHERE t.advancement_key = :key AND (t.session_key = c.session_key OR t.session_id = c.session_id);

-- name: has_advancements
SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'turn_advancements';

-- name: context_tokens
-- The running count, unless another program has folded since, or cleared the context; and the next ordinal.
SELECT context_tokens, context_extra, (SELECT max(ordinal) + 1 FROM context_items WHERE conversation_id = :conversation_id)
  FROM ingest_state
 WHERE conversation_id = :conversation_id AND typeof(context_tokens) = 'integer'
   AND context_seq IS (SELECT seq FROM messages WHERE conversation_id = :conversation_id ORDER BY seq DESC LIMIT 1)
   AND (SELECT message_id IS NULL FROM context_items WHERE conversation_id = :conversation_id ORDER BY ordinal DESC LIMIT 1) IS 0
   AND (SELECT x.summary_id IS NULL FROM summaries s LEFT JOIN summary_extras x USING (summary_id)
         WHERE s.conversation_id = :conversation_id ORDER BY s.created_at DESC LIMIT 1) IS NOT 1;

-- name: set_context_tokens
-- Messages that we have not recorded are another program's: the newest shows when it stored.
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
