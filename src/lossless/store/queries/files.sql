-- Payloads that were moved out of messages: their rows, and references to them.

-- name: insert
INSERT INTO large_files (file_id, conversation_id, file_name, mime_type, byte_size, line_count, storage_uri, exploration_summary, created_at)
VALUES (:id, :conversation_id, :name, :mime, :byte_size, :line_count, :storage_uri, :exploration_summary, datetime(:created_at))
ON CONFLICT (file_id) DO NOTHING;

-- name: by_ids
-- In the given order.
SELECT file_id, conversation_id, CAST(file_name AS BLOB), CAST(mime_type AS BLOB), byte_size, line_count,
       CAST(storage_uri AS BLOB), CAST(exploration_summary AS BLOB), strftime('%Y-%m-%dT%H:%M:%fZ', created_at)
  FROM json_each(:ids) j CROSS JOIN large_files ON file_id = j.value
 WHERE (:within IS NULL OR conversation_id IN (SELECT value FROM json_each(:within)))
 ORDER BY j.key;

-- name: newest
-- The ids of files, newest first, after a position; an invalid time counts as the start of 1970.
SELECT file_id FROM (
    SELECT file_id, coalesce(CAST(round(unixepoch(created_at, 'subsec') * 1000) AS INTEGER), 0) AS at FROM large_files
     WHERE (:conversations IS NULL OR conversation_id IN (SELECT value FROM json_each(:conversations)))
       AND (:ids IS NULL OR file_id IN (SELECT value FROM json_each(:ids))))
 WHERE (:since IS NULL OR at >= :since) AND (:before IS NULL OR at < :before)
   AND (:from_at IS NULL OR (-at, file_id) > (-CAST(round(unixepoch(:from_at, 'subsec') * 1000) AS INTEGER), :from_id))
 ORDER BY at DESC, file_id LIMIT :limit;

-- name: totals
SELECT count(*), coalesce(sum(byte_size), 0) FROM large_files
 WHERE (:conversations IS NULL OR conversation_id IN (SELECT value FROM json_each(:conversations)))
   AND (:since IS NULL OR coalesce(unixepoch(created_at, 'subsec') * 1000, 0) >= :since)
   AND (:before IS NULL OR coalesce(unixepoch(created_at, 'subsec') * 1000, 0) < :before);

-- name: plain
-- The oldest files with one of our prose summaries, which a model can improve.
SELECT file_id FROM large_files
 WHERE conversation_id BETWEEN :first AND :last AND file_id NOT IN (SELECT value FROM json_each(:but))
   AND (exploration_summary LIKE 'Text exploration summary (%'
        OR exploration_summary LIKE 'Tool input: %' || char(10) || 'Text exploration summary (%')
 ORDER BY created_at, file_id LIMIT :limit;

-- name: count_plain
SELECT count(*) FROM large_files
 WHERE conversation_id BETWEEN :first AND :last
   AND (exploration_summary LIKE 'Text exploration summary (%'
        OR exploration_summary LIKE 'Tool input: %' || char(10) || 'Text exploration summary (%');

-- name: set_summary
UPDATE large_files SET exploration_summary = :summary WHERE file_id = :id AND exploration_summary IS :known;

-- name: ids
SELECT file_id FROM large_files;

-- name: remove
DELETE FROM large_files WHERE file_id IN (SELECT value FROM json_each(:ids));

-- name: mentions
-- Every text that may contain an id.
SELECT content FROM messages WHERE instr(content, 'file_') > 0
UNION ALL
SELECT large_content FROM messages WHERE large_content IS NOT NULL
UNION ALL
SELECT coalesce(text_content, '') || ' ' || coalesce(tool_output, '') || ' ' || coalesce(metadata, '') FROM message_parts
 WHERE instr(coalesce(text_content, ''), 'file_') > 0 OR instr(coalesce(tool_output, ''), 'file_') > 0
    OR instr(coalesce(metadata, ''), 'file_') > 0
UNION ALL
SELECT file_ids || ' ' || content FROM summaries WHERE file_ids <> '[]' OR instr(content, 'file_') > 0
UNION ALL
SELECT content FROM pins WHERE instr(coalesce(content, ''), 'file_') > 0
UNION ALL
SELECT content FROM focus_briefs WHERE instr(content, 'file_') > 0;

-- name: version_bodies
SELECT body FROM message_versions WHERE body IS NOT NULL;

-- name: part_metadata
SELECT ordinal, metadata FROM message_parts WHERE message_id = :message_id;

-- name: set_part_metadata
UPDATE message_parts SET metadata = :metadata WHERE message_id = :message_id AND ordinal = :ordinal;

-- name: add_part
INSERT INTO message_parts (part_id, message_id, session_id, part_type, ordinal, metadata)
VALUES (:part_id, :message_id, '', 'text', 0, :metadata);

-- name: text_of
-- The text of the message whose payload a file holds, where the message still has it.
SELECT CAST(content AS BLOB) FROM messages WHERE conversation_id = :conversation_id AND large_content = :id
   AND (:within IS NULL OR conversation_id IN (SELECT value FROM json_each(:within)))
 ORDER BY seq LIMIT 1;

-- name: call
-- JSON text that was stored as a string is that text.
WITH here (seq) AS (
    SELECT coalesce(:before, (SELECT max(seq) + 1 FROM messages WHERE conversation_id = :conversation_id), 0)
)
SELECT p.tool_name, CASE WHEN NOT json_valid(p.tool_input) THEN p.tool_input
                         WHEN json_type(p.tool_input) = 'text' THEN p.tool_input ->> '$' ELSE p.tool_input END
  FROM here CROSS JOIN messages m JOIN message_parts p USING (message_id)
 WHERE m.conversation_id = :conversation_id AND m.seq >= here.seq - 200 AND m.seq < here.seq
   AND p.tool_call_id = :call_id AND p.tool_input IS NOT NULL
 ORDER BY m.seq DESC, p.ordinal LIMIT 1;

-- name: large_tool_outputs
SELECT m.message_id, m.conversation_id, octet_length(m.content), substr(m.content, 1, 64), p.tool_name, p.tool_call_id, m.seq
  FROM messages m
  LEFT JOIN message_parts p ON p.message_id = m.message_id AND p.ordinal = 0
 WHERE m.role = 'tool' AND m.large_content IS NULL
   AND (:conversation_id IS NULL OR m.conversation_id = :conversation_id)
   AND octet_length(m.content) >= :least
 ORDER BY m.message_id;

-- name: set_stub
UPDATE messages SET large_content = :file_id WHERE message_id = :message_id AND large_content IS NULL;

-- name: stubs
-- Messages whose text is also in a file.
SELECT message_id, large_content FROM messages
 WHERE large_content IS NOT NULL AND (:conversation_id IS NULL OR conversation_id = :conversation_id)
 ORDER BY message_id;

-- name: clear_stubs
UPDATE messages SET large_content = NULL WHERE message_id IN (SELECT value FROM json_each(:ids));
