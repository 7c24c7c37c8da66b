-- A trigram index, for searches that are not words: built when a scan was too slow, or on request.

-- name: is_there
SELECT 1 FROM sqlite_master WHERE name = 'message_trigrams';

-- name: create
CREATE VIRTUAL TABLE IF NOT EXISTS message_trigrams USING fts5 (
    body, content='', contentless_delete=1, detail=none, tokenize='trigram');

-- name: through
SELECT value FROM archive_state WHERE name = 'trigrams_through';

-- name: set_through
INSERT INTO archive_state (name, value) VALUES ('trigrams_through', :value)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: next
SELECT message_id FROM messages WHERE message_id > :after ORDER BY message_id LIMIT :limit;

-- name: add
INSERT INTO message_trigrams (rowid, body) VALUES (?, ?);

-- name: drop
DELETE FROM message_trigrams WHERE rowid = :message_id;

-- name: having
SELECT rowid FROM message_trigrams WHERE message_trigrams MATCH :match;
