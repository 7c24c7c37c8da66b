-- Marks of forgotten texts, so that they can be recognised.

-- name: newest
SELECT max(round), count(*) FROM tombstones;

-- name: all
SELECT round, digest, length, roll, conversation_id FROM tombstones ORDER BY round, digest;

-- name: add
INSERT OR IGNORE INTO tombstones (round, digest, length, roll, conversation_id) VALUES (?, ?, ?, ?, ?);

-- name: key
SELECT value FROM archive_state WHERE name = 'tombstone_key';

-- name: set_key
INSERT OR IGNORE INTO archive_state (name, value) VALUES ('tombstone_key', :key);
