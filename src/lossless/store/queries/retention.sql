-- Sizes of conversations, deletion on the user's command, and vacuum.

-- name: conversations
-- Every conversation with its newest message time and the bytes of its texts; oldest first.
WITH said AS (
    SELECT conversation_id, count(*) AS count, max(created_at) AS newest, sum(octet_length(content)) AS bytes
      FROM messages GROUP BY conversation_id),
blocks AS (
    SELECT m.conversation_id,
           sum(coalesce(octet_length(p.text_content), 0) + coalesce(octet_length(p.tool_input), 0)
             + coalesce(octet_length(p.tool_output), 0) + coalesce(octet_length(p.metadata), 0)) AS bytes
      FROM message_parts p JOIN messages m USING (message_id) GROUP BY m.conversation_id),
folded AS (
    SELECT conversation_id, count(*) AS count, sum(octet_length(content)) AS bytes
      FROM summaries GROUP BY conversation_id),
aside AS (
    SELECT conversation_id, count(*) AS count, coalesce(sum(byte_size), 0) AS bytes
      FROM large_files GROUP BY conversation_id)
SELECT c.conversation_id, c.session_id, c.session_key, c.title, c.active, c.created_at, coalesce(said.newest, c.created_at),
       coalesce(said.count, 0), coalesce(folded.count, 0), coalesce(aside.count, 0),
       coalesce(said.bytes, 0) + coalesce(blocks.bytes, 0) + coalesce(folded.bytes, 0), coalesce(aside.bytes, 0), 0
  FROM conversations c
  LEFT JOIN said USING (conversation_id) LEFT JOIN blocks USING (conversation_id)
  LEFT JOIN folded USING (conversation_id) LEFT JOIN aside USING (conversation_id)
 ORDER BY coalesce(said.newest, c.created_at), c.conversation_id;

-- name: borrowed
-- Which conversations hold something of another one: the holder, and the owner.
SELECT s.conversation_id, m.conversation_id
  FROM summary_messages l JOIN summaries s USING (summary_id) JOIN messages m USING (message_id)
 WHERE s.conversation_id <> m.conversation_id
UNION
SELECT s.conversation_id, p.conversation_id
  FROM summary_parents l JOIN summaries s USING (summary_id) JOIN summaries p ON p.summary_id = l.parent_summary_id
 WHERE s.conversation_id <> p.conversation_id
UNION
SELECT c.conversation_id, m.conversation_id FROM context_items c JOIN messages m USING (message_id)
 WHERE c.conversation_id <> m.conversation_id
UNION
SELECT c.conversation_id, s.conversation_id FROM context_items c JOIN summaries s USING (summary_id)
 WHERE c.conversation_id <> s.conversation_id
UNION
SELECT conversation_id, source_id FROM fork_sources;

-- name: state
-- What must not have changed between reading and deleting.
SELECT c.conversation_id, c.active, coalesce((SELECT max(created_at) FROM messages m WHERE m.conversation_id = c.conversation_id), c.created_at),
       (SELECT count(*) FROM messages m WHERE m.conversation_id = c.conversation_id),
       EXISTS (SELECT 1 FROM leases l WHERE l.name = 'compact:' || c.conversation_id AND l.expires_at > :now)
  FROM conversations c WHERE c.conversation_id IN (SELECT value FROM json_each(:ids));

-- name: dependents
-- Tables, ours and other programs', whose rows are deleted first: table, column, and the table with the conversation
-- (NULL: its own). Not those in :tables.
WITH columns (place, name, owner) AS (VALUES (0, 'message_id', 'messages'), (1, 'summary_id', 'summaries'), (2, 'conversation_id', NULL)),
found AS (SELECT t.name AS "table", c.* FROM pragma_table_list t, pragma_table_info(t.name) i, columns c
           WHERE t.schema = 'main' AND t.type = 'table' AND c.name = i.name AND t.name NOT IN (SELECT value FROM json_each(:tables)))
SELECT "table", name, owner FROM found
 WHERE owner IS NULL OR "table" NOT IN (SELECT "table" FROM found WHERE owner IS NULL) ORDER BY place, "table";

-- name: unindexed_references
-- References to messages and summaries that SQLite would find only by a table scan.
SELECT DISTINCT t.name, f."from" FROM pragma_table_list t, pragma_foreign_key_list(t.name) f
 WHERE t.schema = 'main' AND t.type = 'table' AND f."table" IN ('messages')
   AND NOT EXISTS (SELECT 1 FROM pragma_index_list(t.name) l, pragma_index_info(l.name) i WHERE i.seqno = 0 AND i.name = f."from")
   AND NOT EXISTS (SELECT 1 FROM pragma_table_info(t.name) c WHERE c.name = f."from" AND c.pk = 1 AND upper(c.type) = 'INTEGER')
 ORDER BY 1, 2;

-- name: unindex_passages
DELETE FROM message_index WHERE rowid IN (
    SELECT :base + passage_id FROM message_passages JOIN messages USING (message_id)
     WHERE conversation_id IN (SELECT value FROM json_each(:ids)));

-- name: unindex_messages
DELETE FROM message_index WHERE rowid IN (
    SELECT message_id FROM messages WHERE conversation_id IN (SELECT value FROM json_each(:ids)));

-- name: unindex_versions
DELETE FROM version_index WHERE rowid IN (
    SELECT version_id FROM message_versions JOIN messages USING (message_id)
     WHERE conversation_id IN (SELECT value FROM json_each(:ids)));

-- name: unindex_summaries
DELETE FROM summary_index WHERE rowid IN (
    SELECT index_id FROM summary_extras JOIN summaries USING (summary_id)
     WHERE conversation_id IN (SELECT value FROM json_each(:ids)));

-- name: message_trigrams
DELETE FROM message_trigrams WHERE rowid IN (
    SELECT message_id FROM messages WHERE conversation_id IN (SELECT value FROM json_each(:ids)));

-- name: messages_fts
DELETE FROM messages_fts WHERE rowid IN (
    SELECT message_id FROM messages WHERE conversation_id IN (SELECT value FROM json_each(:ids)));

-- name: summaries_fts
DELETE FROM summaries_fts WHERE summary_id IN (
    SELECT summary_id FROM summaries WHERE conversation_id IN (SELECT value FROM json_each(:ids)));

-- name: summaries_fts_cjk
DELETE FROM summaries_fts_cjk WHERE summary_id IN (
    SELECT summary_id FROM summaries WHERE conversation_id IN (SELECT value FROM json_each(:ids)));

-- name: search_tables
SELECT name FROM sqlite_master
 WHERE type = 'table' AND name IN ('message_trigrams', 'messages_fts', 'summaries_fts', 'summaries_fts_cjk') ORDER BY name;

-- name: forget_spending
-- Spend stays recorded, without the conversation.
UPDATE spend_ledger SET conversation_id = NULL WHERE conversation_id IN (SELECT value FROM json_each(:ids));

-- name: drop_leases
DELETE FROM leases WHERE name IN (SELECT 'compact:' || value FROM json_each(:ids));

-- name: drop_grants
-- Grants for deleted conversations only.
DELETE FROM expansion_grants
 WHERE NOT EXISTS (SELECT 1 FROM json_each(conversation_ids) g WHERE g.value NOT IN (SELECT value FROM json_each(:ids)));

-- name: drop_parents
-- Links from and to the deleted summaries.
DELETE FROM summary_parents
 WHERE summary_id IN (SELECT summary_id FROM summaries WHERE conversation_id IN (SELECT value FROM json_each(:ids)))
    OR parent_summary_id IN (SELECT summary_id FROM summaries WHERE conversation_id IN (SELECT value FROM json_each(:ids)));

-- name: tidy_message_index
-- Deleted rows leave tombstones; this rebuilds the index without them.
INSERT INTO message_index (message_index) VALUES ('optimize');

-- name: tidy_summary_index
INSERT INTO summary_index (summary_index) VALUES ('optimize');

-- name: spill_to_disk
-- VACUUM builds a second copy of the file: not in memory.
PRAGMA temp_store = FILE;

-- name: vacuum
VACUUM;

-- name: truncate_wal
PRAGMA wal_checkpoint(TRUNCATE);

-- name: has_page_sizes
SELECT 1 FROM pragma_module_list WHERE name = 'dbstat';

-- name: page_sizes
SELECT name, pgsize FROM dbstat WHERE aggregate = TRUE;

-- name: text_sizes
-- The size of texts alone, where pages cannot be counted.
SELECT 'messages', coalesce(sum(octet_length(content)), 0) FROM messages
UNION ALL
SELECT 'message_parts', coalesce(sum(coalesce(octet_length(text_content), 0) + coalesce(octet_length(tool_input), 0)
       + coalesce(octet_length(tool_output), 0) + coalesce(octet_length(metadata), 0)), 0) FROM message_parts
UNION ALL
SELECT 'message_extras', coalesce(sum(32 + coalesce(octet_length(skeleton), 0)), 0) FROM message_extras
UNION ALL
SELECT 'summaries', coalesce(sum(octet_length(content)), 0) FROM summaries;

-- name: summary_text
-- Bytes and number of summaries by kind.
SELECT kind, count(*), coalesce(sum(octet_length(content)), 0) FROM summaries GROUP BY kind;

-- name: message_text
SELECT count(*), coalesce(sum(octet_length(content)), 0) FROM messages;

-- name: files
SELECT file_id, conversation_id, storage_uri, coalesce(byte_size, 0) FROM large_files
 WHERE conversation_id IN (SELECT value FROM json_each(:ids)) ORDER BY file_id;

-- name: collectable
-- Tool results whose text is in a file, under a leaf, in no context; oldest first.
SELECT m.message_id, p.tool_call_id, m.content,
       coalesce(m.large_content, CASE WHEN json_valid(p.metadata) THEN json_extract(p.metadata, '$.externalizedFileId') END) AS file_id
  FROM messages m JOIN message_parts p ON p.message_id = m.message_id AND p.tool_call_id IS NOT NULL
 WHERE m.conversation_id = :conversation_id AND m.role = 'tool'
   AND (m.large_content IS NOT NULL OR instr(coalesce(p.metadata, ''), '"externalizedFileId"') > 0)
   AND file_id IS NOT NULL
   AND EXISTS (SELECT 1 FROM summary_messages l WHERE l.message_id = m.message_id)
   AND NOT EXISTS (SELECT 1 FROM context_items c WHERE c.conversation_id = m.conversation_id AND c.message_id = m.message_id)
 ORDER BY m.seq, p.ordinal;

-- name: kept_records
-- Records of a transcript that are stored in addition to messages.
SELECT record_key FROM transcript_records
 WHERE conversation_id = :conversation_id AND record_key IN (SELECT value FROM json_each(:ids));
