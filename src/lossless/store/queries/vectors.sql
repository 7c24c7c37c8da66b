-- What messages mean, as vectors of the embedder that is configured: made of their words, and of no use without them.

-- name: model
SELECT value FROM archive_state WHERE name = 'embedder';

-- name: set_model
INSERT INTO archive_state (name, value) VALUES ('embedder', :name) ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: clear
DELETE FROM message_vectors;

-- name: pending
-- Messages whose words have no vector, the newest first.
SELECT m.message_id, substr(x.digest, 1, 8) FROM messages m JOIN message_extras x USING (message_id)
  LEFT JOIN message_vectors v USING (message_id)
 WHERE m.message_id < :below AND x.digest IS NOT NULL AND (v.digest IS NULL OR v.digest <> substr(x.digest, 1, 8))
 ORDER BY m.message_id DESC LIMIT :limit;

-- name: put
INSERT INTO message_vectors (message_id, digest, vector) VALUES (?, ?, ?)
    ON CONFLICT (message_id) DO UPDATE SET digest = excluded.digest, vector = excluded.vector;

-- name: drop
DELETE FROM message_vectors WHERE message_id = :message_id;

-- name: of
-- Vectors of the words that messages of some conversations have now, the newest first.
SELECT v.message_id, v.vector FROM messages m JOIN message_vectors v USING (message_id) JOIN message_extras x USING (message_id)
 WHERE m.conversation_id IN (SELECT value FROM json_each(:conversations)) AND v.digest = substr(x.digest, 1, 8)
   AND (:since IS NULL OR unixepoch(m.created_at, 'subsec') * 1000 >= :since)
   AND (:before IS NULL OR unixepoch(m.created_at, 'subsec') * 1000 < :before)
 ORDER BY v.message_id DESC LIMIT :limit;

-- name: count
SELECT count(*) FROM message_vectors;
