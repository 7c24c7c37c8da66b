-- Dropping the search tables that only lossless-claw reads.

-- name: tables
SELECT name FROM sqlite_master
 WHERE type = 'table' AND name IN ('messages_fts', 'summaries_fts', 'summaries_fts_cjk') ORDER BY name;

-- name: bytes
-- The size of the tables and their shadow tables.
SELECT coalesce(sum(pgsize), 0) FROM dbstat
 WHERE aggregate = TRUE AND (name GLOB 'messages_fts*' OR name GLOB 'summaries_fts*');

-- name: drop_messages_fts
DROP TABLE IF EXISTS messages_fts;

-- name: drop_summaries_fts
DROP TABLE IF EXISTS summaries_fts;

-- name: drop_summaries_fts_cjk
DROP TABLE IF EXISTS summaries_fts_cjk;

-- name: hold
-- From the next lock on, locks are kept until this is reset.
PRAGMA locking_mode = EXCLUSIVE;

-- name: let_go
PRAGMA locking_mode = NORMAL;

-- name: leave_wal
-- Works only for the sole connection: every other one in WAL mode holds a shared lock while it is open.
PRAGMA journal_mode = DELETE;

-- name: enter_wal
PRAGMA journal_mode = WAL;

-- name: spill_to_disk
-- VACUUM builds a second copy of the file: not in memory.
PRAGMA temp_store = FILE;

-- name: vacuum
VACUUM;

-- name: check
PRAGMA quick_check(1);

-- name: read_once
SELECT count(*) FROM sqlite_master;
