-- The search index, updated in the transaction of the indexed rows.

-- name: add_messages
-- For one row; more are appended to the VALUES list.
INSERT INTO message_index (rowid, body, extra) VALUES (?, ?, ?)

-- name: add_passage
INSERT INTO message_passages (passage_id, message_id, start, length) VALUES (?, ?, ?, ?);

-- name: next_passage
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'message_passages'), 0) + 1;

-- name: drop_rows_of
DELETE FROM message_index WHERE rowid IN (
       SELECT :message_id UNION ALL SELECT :base + passage_id FROM message_passages WHERE message_id = :message_id);

-- name: drop_passages
DELETE FROM message_passages WHERE message_id = :message_id;

-- name: drop_row
DELETE FROM message_index WHERE rowid = :rowid;

-- name: unindexed_messages
-- Rows of other programs, above the mark up to which all are indexed.
SELECT m.message_id FROM messages m LEFT JOIN message_extras x USING (message_id)
 WHERE m.message_id > :after AND x.digest IS NULL
 ORDER BY m.message_id LIMIT :limit;

-- name: gap
-- Whether a message between two is not indexed.
SELECT 1 FROM messages m LEFT JOIN message_extras x USING (message_id)
 WHERE m.message_id > :after AND m.message_id <= :through AND x.digest IS NULL LIMIT 1;

-- name: lost_messages
-- Messages that were indexed, are not blank, and have no index row.
SELECT x.message_id FROM message_extras x JOIN messages m USING (message_id)
 WHERE x.message_id > :after AND substr(x.digest, 1, 8) <> :blank
   AND NOT EXISTS (SELECT 1 FROM message_index_docsize d WHERE d.id = x.message_id)
 ORDER BY x.message_id LIMIT :limit;

-- name: lost_passages
-- Messages with a further passage that has no index row.
SELECT DISTINCT p.message_id FROM message_passages p JOIN messages m USING (message_id)
 WHERE p.message_id > :after AND NOT EXISTS (SELECT 1 FROM message_index_docsize d WHERE d.id = :base + p.passage_id)
 ORDER BY p.message_id LIMIT :limit;

-- name: gone_rows
-- Index rows without a message or passage.
SELECT d.id FROM message_index_docsize d
 WHERE (d.id < :base AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.message_id = d.id))
    OR (d.id >= :base AND NOT EXISTS (SELECT 1 FROM message_passages p WHERE p.passage_id = d.id - :base))
 LIMIT :limit;

-- name: gone_summary_rows
-- Index rows without a summary, or whose summary got another row.
SELECT d.id FROM summary_index_docsize d
 WHERE NOT EXISTS (SELECT 1 FROM summary_extras x WHERE x.index_id = d.id) LIMIT :limit;

-- name: stray_passages
SELECT 1 FROM message_index_docsize d
 WHERE d.id >= :base AND NOT EXISTS (SELECT 1 FROM message_passages p WHERE p.passage_id = d.id - :base) LIMIT 1;

-- name: empty.message_index
DROP TABLE IF EXISTS message_index;

-- name: empty.summary_index
DROP TABLE IF EXISTS summary_index;

-- name: empty.version_index
DROP TABLE IF EXISTS version_index;

-- name: empty.passages
DELETE FROM message_passages;

-- name: set_extras
INSERT INTO message_extras (message_id, fingerprint, digest, claimed, format, skeleton, budget_tokens)
VALUES (?1, ?2, ?3, 1, NULL, NULL, ?4)
    ON CONFLICT (message_id) DO UPDATE SET digest = excluded.digest, budget_tokens = excluded.budget_tokens;

-- name: unindexed_summaries
SELECT s.summary_id, s.content FROM summaries s LEFT JOIN summary_extras x USING (summary_id)
 WHERE x.summary_id IS NULL LIMIT :limit;

-- name: add_summary_extras
INSERT INTO summary_extras (summary_id, digest, budget_tokens) VALUES (:summary_id, :digest, :budget_tokens)
    ON CONFLICT (summary_id) DO UPDATE SET digest = excluded.digest, budget_tokens = excluded.budget_tokens
    RETURNING index_id;

-- name: drop_row_of_summary
DELETE FROM summary_index WHERE rowid = (SELECT index_id FROM summary_extras WHERE summary_id = :summary_id);

-- name: add_summary
INSERT INTO summary_index (rowid, body, extra) VALUES (?, ?, ?);

-- name: drop_summary_row
DELETE FROM summary_index WHERE rowid = :rowid;

-- name: upstream_tables
SELECT name FROM sqlite_master WHERE type = 'table' AND name IN ('messages_fts', 'summaries_fts', 'summaries_fts_cjk');

-- name: add.messages_fts
INSERT INTO messages_fts (rowid, content) VALUES (?, ?);

-- name: drop.messages_fts
DELETE FROM messages_fts WHERE rowid = ?;

-- name: add.summaries_fts
INSERT INTO summaries_fts (summary_id, content) VALUES (?, ?);

-- name: add.summaries_fts_cjk
INSERT INTO summaries_fts_cjk (summary_id, content) VALUES (?, ?);

-- name: drop.summaries_fts
DELETE FROM summaries_fts WHERE summary_id = ?;

-- name: drop.summaries_fts_cjk
DELETE FROM summaries_fts_cjk WHERE summary_id = ?;

-- name: lost.messages_fts
-- Messages with words that lossless-claw's search table lacks.
SELECT m.message_id, m.content FROM messages m
 WHERE m.message_id > :after AND NOT EXISTS (SELECT 1 FROM messages_fts_docsize d WHERE d.id = m.message_id)
   AND typeof(m.content) = 'text' AND trim(m.content, ' ' || char(9, 10, 13)) <> ''
 ORDER BY m.message_id LIMIT :limit;

-- name: lost.summaries_fts
SELECT summary_id, content FROM summaries WHERE typeof(content) = 'text' AND trim(content, ' ' || char(9, 10, 13)) <> ''
   AND summary_id NOT IN (SELECT summary_id FROM summaries_fts) LIMIT :limit;

-- name: lost.summaries_fts_cjk
SELECT summary_id, content FROM summaries WHERE typeof(content) = 'text' AND trim(content, ' ' || char(9, 10, 13)) <> ''
   AND summary_id NOT IN (SELECT summary_id FROM summaries_fts_cjk) LIMIT :limit;

-- name: messages_fts_any
SELECT 1 FROM messages_fts_docsize LIMIT 1;

-- name: summaries_fts_any
SELECT 1 FROM summaries_fts LIMIT 1;

-- name: summaries_fts_cjk_any
SELECT 1 FROM summaries_fts_cjk LIMIT 1;

-- name: messages_fts_integrity
PRAGMA integrity_check(messages_fts);

-- name: summaries_fts_integrity
PRAGMA integrity_check(summaries_fts);

-- name: summaries_fts_cjk_integrity
PRAGMA integrity_check(summaries_fts_cjk);

-- name: table_definition
SELECT sql FROM sqlite_master WHERE type = 'table' AND name = :name;

-- name: drop_messages_fts
DROP TABLE messages_fts;

-- name: drop_summaries_fts
DROP TABLE summaries_fts;

-- name: drop_summaries_fts_cjk
DROP TABLE summaries_fts_cjk;

-- name: forget_context_tokens
-- The count of a context with this summary may be outdated.
UPDATE ingest_state SET context_tokens = NULL
 WHERE conversation_id = (SELECT conversation_id FROM summaries WHERE summary_id = :summary_id);
