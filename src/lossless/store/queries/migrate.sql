-- Reading a file's schema, and filling what older versions lack.

-- name: tables
SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\_%' ESCAPE '\';

-- name: columns
SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_info(:table);

-- name: file_columns
-- Of the file itself, not of temporary replacements.
SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_info(:table, 'main');

-- name: steps
SELECT step_name, max(algorithm_version) FROM lcm_migration_state GROUP BY step_name;

-- name: record_step
INSERT OR IGNORE INTO lcm_migration_state (step_name, algorithm_version) VALUES (:step, :version);

-- name: state
SELECT value FROM archive_state WHERE name = :name;

-- name: set_state
INSERT INTO archive_state (name, value) VALUES (:name, :value)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: old_key_index
SELECT name FROM sqlite_master WHERE type = 'index' AND name = 'conversations_session_key_idx';

-- name: drop_old_key_index
-- Older files allow a session key only once, including archived conversations; upstream drops this index, too.
DROP INDEX IF EXISTS conversations_session_key_idx;

-- name: without_identity
SELECT message_id, role, content FROM messages
 WHERE message_id > :after AND (identity_hash IS NULL OR identity_hash = '')
 ORDER BY message_id LIMIT 1000;

-- name: framed_users
-- User rows whose text begins with a metadata frame: their identity excludes volatile keys.
SELECT message_id, role, content FROM messages
 WHERE message_id > :after AND role = 'user' AND instr(substr(content, 1, 4000), 'Conversation info (untrusted metadata):') > 0
 ORDER BY message_id LIMIT 1000;

-- name: set_identity
UPDATE messages SET identity_hash = :identity WHERE message_id = :message_id;

-- name: fill_depths
-- A leaf is 0; a condensed summary one more than its deepest source; one without sources, or in a cycle, 1.
WITH RECURSIVE known (summary_id, depth) AS (
    SELECT summary_id, CASE kind WHEN 'leaf' THEN 0 ELSE 1 END FROM summaries
     WHERE kind = 'leaf' OR summary_id NOT IN (SELECT summary_id FROM summary_parents)
    UNION
    SELECT p.summary_id, known.depth + 1 FROM summary_parents p
      JOIN known ON known.summary_id = p.parent_summary_id
     WHERE known.depth < 64
)
UPDATE summaries
   SET depth = coalesce((SELECT max(depth) FROM known WHERE known.summary_id = summaries.summary_id),
                        CASE kind WHEN 'leaf' THEN 0 ELSE 1 END);

-- name: fill_leaf_spans
UPDATE summaries
   SET earliest_at = coalesce(earliest_at, (
           SELECT strftime('%Y-%m-%dT%H:%M:%fZ', min(julianday(m.created_at)))
             FROM summary_messages sm JOIN messages m USING (message_id)
            WHERE sm.summary_id = summaries.summary_id)),
       latest_at = coalesce(latest_at, (
           SELECT strftime('%Y-%m-%dT%H:%M:%fZ', max(julianday(m.created_at)))
             FROM summary_messages sm JOIN messages m USING (message_id)
            WHERE sm.summary_id = summaries.summary_id)),
       source_message_token_count = coalesce((
           SELECT sum(m.token_count) FROM summary_messages sm JOIN messages m USING (message_id)
            WHERE sm.summary_id = summaries.summary_id), 0)
 WHERE kind = 'leaf';

-- name: deepest
SELECT coalesce(max(depth), 0) FROM summaries;

-- name: fill_condensed_spans
-- One depth at a time, so that sources are correct before the summaries made of them.
UPDATE summaries
   SET earliest_at = coalesce(earliest_at, (
           SELECT min(s.earliest_at) FROM summary_parents p JOIN summaries s ON s.summary_id = p.parent_summary_id
            WHERE p.summary_id = summaries.summary_id)),
       latest_at = coalesce(latest_at, (
           SELECT max(s.latest_at) FROM summary_parents p JOIN summaries s ON s.summary_id = p.parent_summary_id
            WHERE p.summary_id = summaries.summary_id)),
       descendant_count = coalesce((
           SELECT sum(s.descendant_count + 1) FROM summary_parents p JOIN summaries s ON s.summary_id = p.parent_summary_id
            WHERE p.summary_id = summaries.summary_id), 0),
       descendant_token_count = coalesce((
           SELECT sum(s.token_count + s.descendant_token_count)
             FROM summary_parents p JOIN summaries s ON s.summary_id = p.parent_summary_id
            WHERE p.summary_id = summaries.summary_id), 0),
       source_message_token_count = coalesce((
           SELECT sum(s.source_message_token_count)
             FROM summary_parents p JOIN summaries s ON s.summary_id = p.parent_summary_id
            WHERE p.summary_id = summaries.summary_id), 0)
 WHERE kind = 'condensed' AND depth = :depth;

-- name: fill_tool_columns
UPDATE message_parts
   SET tool_call_id = coalesce(tool_call_id, metadata ->> '$.toolCallId', metadata ->> '$.raw.id', metadata ->> '$.raw.call_id',
                               metadata ->> '$.raw.toolCallId', metadata ->> '$.raw.tool_call_id'),
       tool_name = coalesce(tool_name, metadata ->> '$.toolName', metadata ->> '$.raw.name', metadata ->> '$.raw.toolName',
                            metadata ->> '$.raw.tool_name'),
       tool_input = coalesce(tool_input, metadata -> '$.raw.input', metadata -> '$.raw.arguments', metadata -> '$.raw.toolInput')
 WHERE part_type = 'tool' AND json_valid(metadata) AND (tool_call_id IS NULL OR tool_name IS NULL OR tool_input IS NULL);

-- name: fill_result_columns
-- A result that came as plain text has its call in the metadata.
UPDATE message_parts
   SET tool_call_id = metadata ->> '$.toolCallId', tool_name = coalesce(tool_name, metadata ->> '$.toolName')
 WHERE part_type = 'text' AND tool_call_id IS NULL AND json_valid(metadata) AND metadata ->> '$.toolCallId' IS NOT NULL;
