-- Rules that rows must satisfy. Each query returns violations: their id, and what is wrong. A query's name begins with
-- its table. CHECK constraints do not apply to reads, so they are repeated here.

-- name: integrity
PRAGMA integrity_check(100);

-- name: quick_check
PRAGMA quick_check(1);

-- name: foreign_keys
PRAGMA foreign_key_check;

-- name: conversations.fields
SELECT conversation_id, 'active is neither 0 nor 1, or a time is invalid' FROM conversations
 WHERE active NOT IN (0, 1) OR julianday(created_at) IS NULL OR julianday(updated_at) IS NULL
    OR (archived_at IS NOT NULL AND julianday(archived_at) IS NULL) OR session_id = '' OR typeof(session_id) <> 'text';

-- name: conversations.active
SELECT max(conversation_id), 'another conversation is active under the same session key' FROM conversations
 WHERE active = 1 AND session_key IS NOT NULL GROUP BY session_key HAVING count(*) > 1;

-- name: messages.fields
SELECT message_id, 'role, seq, token_count or created_at is out of range' FROM messages
 WHERE role NOT IN ('system', 'user', 'assistant', 'tool') OR seq < 1 OR typeof(seq) <> 'integer' OR token_count < 0 OR typeof(token_count) <> 'integer' OR typeof(content) <> 'text'
    OR julianday(created_at) IS NULL;

-- name: messages.order
-- Ids and seqs of a conversation increase together.
SELECT message_id, 'its seq is out of order' FROM (
    SELECT message_id, conversation_id, lag(message_id) OVER (PARTITION BY conversation_id ORDER BY seq) AS before FROM messages)
 WHERE message_id <= before AND conversation_id NOT IN (SELECT conversation_id FROM context_log WHERE action IN ('merge', 'transplant'));

-- name: messages.gaps
-- We never delete single messages; lossless-claw, recognisable by its search tables in the file, prunes heartbeats.
SELECT message_id, 'a message before it is missing, or its seq is wrong' FROM (
    SELECT message_id, conversation_id, seq, lag(seq, 1, 0) OVER (PARTITION BY conversation_id ORDER BY seq) AS before FROM messages)
 WHERE seq <> before + 1 AND conversation_id IN (SELECT conversation_id FROM ingest_state)
   AND conversation_id NOT IN (SELECT conversation_id FROM context_log WHERE action IN ('merge', 'transplant', 'undo', 'import'))
   AND NOT EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'messages_fts');

-- name: message_parts.fields
SELECT part_id, 'its type is unknown, metadata or tool_input is not JSON, or the ordinal is negative' FROM message_parts
 WHERE part_type NOT IN ('text', 'reasoning', 'tool', 'patch', 'file', 'subtask', 'compaction', 'step_start', 'step_finish',
       'snapshot', 'agent', 'retry') OR ordinal < 0 OR (metadata IS NOT NULL AND NOT json_valid(metadata)) OR (tool_input IS NOT NULL AND NOT json_valid(tool_input));

-- name: message_parts.order
SELECT p.part_id, 'the part before it is missing' FROM message_parts p
 WHERE p.ordinal > 0 AND NOT EXISTS (
       SELECT 1 FROM message_parts q WHERE q.message_id = p.message_id AND q.ordinal = p.ordinal - 1);

-- name: message_extras.rows
SELECT x.message_id, 'it has no message' FROM message_extras x LEFT JOIN messages m USING (message_id)
 WHERE m.message_id IS NULL
UNION ALL
SELECT message_id, 'its fingerprint or digest has the wrong size' FROM message_extras
 WHERE length(fingerprint) <> 16 OR (digest IS NOT NULL AND length(digest) NOT IN (8, 16, 24));

-- name: message_extras.lost
-- A message of ours whose extras are gone; other programs give every message a part with their own id.
SELECT m.message_id, 'its derived values are missing' FROM messages m
 WHERE m.message_id < (SELECT max(message_id) FROM message_extras)
   AND m.message_id NOT IN (SELECT message_id FROM message_extras)
   AND NOT EXISTS (SELECT 1 FROM message_parts p WHERE p.message_id = m.message_id AND p.part_id <> m.message_id || '.' || p.ordinal);

-- name: row_digests.fields
SELECT name || ' ' || row_key, 'its digest has the wrong size, or is of no table' FROM row_digests
 WHERE octet_length(digest) <> 8 OR (name <> 'payloads' AND name NOT IN (SELECT name FROM sqlite_master WHERE type = 'table'));

-- name: message_passages.rows
SELECT p.passage_id, 'it is outside its message' FROM message_passages p LEFT JOIN messages m USING (message_id)
 WHERE m.message_id IS NULL OR p.start < 0 OR p.length <= 0;

-- name: message_versions.rows
SELECT v.version_id, 'it has no message' FROM message_versions v LEFT JOIN messages m USING (message_id)
 WHERE m.message_id IS NULL
UNION ALL
SELECT version_id, 'its digest has the wrong size' FROM message_versions WHERE length(digest) <> 16;

-- name: version_index.rows
SELECT d.id, 'it is in the index but not in the archive' FROM version_index_docsize d
 WHERE NOT EXISTS (SELECT 1 FROM message_versions v WHERE v.version_id = d.id AND v.body IS NOT NULL);

-- name: stale_summaries.rows
SELECT t.summary_id, 'it, or the revised message under it, is missing' FROM stale_summaries t
  LEFT JOIN summaries s USING (summary_id) LEFT JOIN messages m USING (message_id)
 WHERE s.summary_id IS NULL OR m.message_id IS NULL;

-- name: message_index.rows
SELECT d.id, 'it is in the index but not in the archive' FROM message_index_docsize d
  LEFT JOIN messages m ON m.message_id = d.id
  LEFT JOIN message_passages p ON p.passage_id = d.id - 1099511627776
 WHERE m.message_id IS NULL AND p.passage_id IS NULL;

-- name: summary_index.rows
SELECT d.id, 'it is in the index but not in the archive' FROM summary_index_docsize d
  LEFT JOIN summary_extras x ON x.index_id = d.id WHERE x.summary_id IS NULL;

-- name: summaries.fields
SELECT summary_id, 'its kind is unknown, a count is negative, file_ids is not JSON, or a time is invalid' FROM summaries
 WHERE kind NOT IN ('leaf', 'condensed') OR depth < 0 OR token_count < 0 OR descendant_count < 0 OR descendant_token_count < 0
    OR source_message_token_count < 0 OR NOT json_valid(file_ids) OR julianday(created_at) IS NULL
    OR (earliest_at IS NOT NULL AND julianday(earliest_at) IS NULL)
    OR (latest_at IS NOT NULL AND julianday(latest_at) IS NULL);

-- name: summaries.leaf_counts
-- What upstream's one-time steps fill in is checked once they have run.
SELECT s.summary_id, 'its depth or its source tokens differ from its messages' FROM summaries s
 WHERE s.kind = 'leaf' AND EXISTS (SELECT 1 FROM lcm_migration_state WHERE step_name = 'backfillSummaryMetadata')
   AND (s.depth <> 0 OR s.source_message_token_count <> (
       SELECT coalesce(sum(m.token_count), 0) FROM summary_messages l JOIN messages m USING (message_id)
        WHERE l.summary_id = s.summary_id));

-- name: summaries.condensed_counts
SELECT s.summary_id, 'its depth or counts differ from its sources' FROM summaries s
 WHERE s.kind = 'condensed' AND EXISTS (SELECT 1 FROM lcm_migration_state WHERE step_name = 'backfillSummaryMetadata')
   AND EXISTS (SELECT 1 FROM summary_parents p WHERE p.summary_id = s.summary_id) AND (
       SELECT s.depth <> max(c.depth) + 1 OR s.descendant_count <> sum(c.descendant_count + 1)
           OR s.descendant_token_count <> sum(c.token_count + c.descendant_token_count)
           OR s.source_message_token_count <> sum(c.source_message_token_count)
         FROM summary_parents p JOIN summaries c ON c.summary_id = p.parent_summary_id
        WHERE p.summary_id = s.summary_id);

-- name: summaries.leaf_times
-- Programs write times in two formats, which do not compare as text: where a summary has both, only its day is checked.
SELECT s.summary_id, 'its times do not match its messages' FROM summaries s
  JOIN summary_messages l USING (summary_id) JOIN messages m USING (message_id)
 WHERE s.kind = 'leaf' GROUP BY s.summary_id
HAVING max(abs(julianday(s.earliest_at) - min(julianday(m.created_at))), abs(julianday(s.latest_at) - max(julianday(m.created_at))))
       > iif(min(substr(m.created_at, 11, 1)) = max(substr(m.created_at, 11, 1)), 3e-8, 1);

-- name: summaries.condensed_times
SELECT s.summary_id, 'its times do not match its sources' FROM summaries s
  JOIN summary_parents p USING (summary_id) JOIN summaries c ON c.summary_id = p.parent_summary_id
 WHERE s.kind = 'condensed' GROUP BY s.summary_id
HAVING max(abs(julianday(s.earliest_at) - min(julianday(c.earliest_at))), abs(julianday(s.latest_at) - max(julianday(c.latest_at))))
       > iif(min(substr(c.earliest_at, 11, 1)) = max(substr(c.latest_at, 11, 1)), 3e-8, 1);

-- name: summaries.sources
SELECT s.summary_id, 'it has no sources' FROM summaries s
 WHERE (s.kind = 'leaf' AND NOT EXISTS (SELECT 1 FROM summary_messages l WHERE l.summary_id = s.summary_id))
    OR (s.kind = 'condensed' AND NOT EXISTS (SELECT 1 FROM summary_parents p WHERE p.summary_id = s.summary_id));

-- name: summary_messages.rows
SELECT l.summary_id, 'message ' || l.message_id || ' belongs to another conversation' FROM summary_messages l
  JOIN messages m USING (message_id) JOIN summaries s USING (summary_id)
 WHERE m.conversation_id <> s.conversation_id
UNION ALL
SELECT summary_id, 'two of its messages have the same ordinal' FROM summary_messages
 GROUP BY summary_id, ordinal HAVING count(*) > 1;

-- name: summary_parents.rows
SELECT p.summary_id, 'its source ' || p.parent_summary_id || ' belongs to another conversation' FROM summary_parents p
  JOIN summaries s USING (summary_id) JOIN summaries c ON c.summary_id = p.parent_summary_id
 WHERE c.conversation_id <> s.conversation_id
UNION ALL
SELECT p.summary_id, 'its source ' || p.parent_summary_id || ' is not below it' FROM summary_parents p
  JOIN summaries s USING (summary_id) JOIN summaries c ON c.summary_id = p.parent_summary_id
 WHERE c.depth >= s.depth AND EXISTS (SELECT 1 FROM lcm_migration_state WHERE step_name = 'backfillSummaryDepths')
UNION ALL
SELECT summary_id, 'two of its sources have the same ordinal' FROM summary_parents
 GROUP BY summary_id, ordinal HAVING count(*) > 1;

-- name: database.references
SELECT m.name, 'it refers to a table or column that is not there' FROM sqlite_schema m, pragma_foreign_key_list(m.name) f
 WHERE m.type = 'table'
   AND NOT EXISTS (SELECT 1 FROM pragma_table_info(f."table") c WHERE f."to" IS NULL OR lower(c.name) = lower(f."to"));

-- name: context_items.places
SELECT conversation_id || ':' || ordinal, 'its position is not a number' FROM context_items WHERE typeof(ordinal) <> 'integer';

-- name: context_items.fields
SELECT conversation_id || ':' || ordinal, 'it is neither a message nor a summary' FROM context_items
 WHERE item_type IS NOT CASE WHEN message_id IS NOT NULL AND summary_id IS NULL THEN 'message'
                             WHEN summary_id IS NOT NULL AND message_id IS NULL THEN 'summary' END
UNION ALL
SELECT conversation_id || ':' || ordinal, 'its time is invalid' FROM context_items WHERE julianday(created_at) IS NULL;

-- name: context_items.rows
SELECT c.conversation_id || ':' || c.ordinal, 'its message or summary belongs to another conversation' FROM context_items c
  LEFT JOIN messages m USING (message_id) LEFT JOIN summaries s USING (summary_id)
 WHERE c.conversation_id <> coalesce(m.conversation_id, s.conversation_id, -1)
UNION ALL
SELECT conversation_id || ':' || max(ordinal), 'the same item is in the context twice' FROM context_items
 GROUP BY conversation_id, message_id, summary_id HAVING count(*) > 1;

-- name: context_order
-- Items after newer ones: whether after a message (1), or only after a summary (0), as lossless-claw's transplants
-- leave them. System prompts and notices go to the front; a host's branches and edits put messages at their own
-- positions, which the log names.
WITH RECURSIVE moved (message_id) AS MATERIALIZED (
    SELECT message_id FROM message_extras WHERE preamble = 1
    UNION
    SELECT j.value FROM context_log g, json_each(g.added) j WHERE g.action = 'branch' AND json_valid(g.added) AND j.type = 'integer'
), below (conversation_id, ordinal, summary_id) AS (
    SELECT conversation_id, ordinal, summary_id FROM context_items WHERE summary_id IS NOT NULL
    UNION
    SELECT b.conversation_id, b.ordinal, p.parent_summary_id FROM below b JOIN summary_parents p USING (summary_id)
), firsts (conversation_id, ordinal, is_message, seq) AS (
    SELECT c.conversation_id, c.ordinal, 1, m.seq FROM context_items c JOIN messages m USING (message_id)
     WHERE m.role <> 'system' AND m.message_id NOT IN moved
    UNION ALL
    SELECT b.conversation_id, b.ordinal, 0, min(m.seq) FROM below b
      JOIN summary_messages l USING (summary_id) JOIN messages m USING (message_id)
     WHERE m.role <> 'system' AND m.message_id NOT IN moved GROUP BY b.conversation_id, b.ordinal
), passed (conversation_id, ordinal, seq, message_seq, any_seq) AS (
    SELECT conversation_id, ordinal, seq, max(iif(is_message, seq, NULL)) OVER before, max(seq) OVER before FROM firsts
    WINDOW before AS (PARTITION BY conversation_id ORDER BY ordinal ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
)
SELECT conversation_id, ordinal, coalesce(seq < message_seq, 0) FROM passed WHERE seq < any_seq ORDER BY conversation_id, ordinal;

-- name: large_files.fields
SELECT file_id, 'it has no place, or its size is negative' FROM large_files
 WHERE storage_uri = '' OR byte_size < 0 OR julianday(created_at) IS NULL;

-- name: large_files.conversation
-- A file stored in another conversation's folder: some message there names it, and none of its own.
WITH moved AS MATERIALIZED (
    SELECT file_id, conversation_id FROM large_files
     WHERE instr(replace(storage_uri, '\', '/'), '/' || conversation_id || '/' || file_id) = 0
), named AS (
    SELECT f.file_id, f.conversation_id = m.conversation_id AS is_own
      FROM messages m CROSS JOIN moved f ON f.file_id = m.large_content
     WHERE m.large_content IS NOT NULL AND EXISTS (SELECT 1 FROM moved)
    UNION ALL
    SELECT f.file_id, f.conversation_id = m.conversation_id
      FROM message_parts p CROSS JOIN moved f ON instr(p.metadata, '"' || f.file_id || '"') > 0 JOIN messages m USING (message_id)
     WHERE instr(p.metadata, '"file_') > 0 AND EXISTS (SELECT 1 FROM moved)
)
SELECT file_id, 'the messages of its conversation do not name it, and those of another do' FROM named
 GROUP BY file_id HAVING max(is_own) = 0;

-- name: conversation_bootstrap_state.fields
SELECT conversation_id, 'its offset is beyond the size, or negative' FROM conversation_bootstrap_state
 WHERE last_processed_offset > last_seen_size OR last_processed_offset < 0 OR fork_bounded NOT IN (0, 1);

-- name: conversation_compaction_telemetry.fields
SELECT conversation_id, 'a state is unknown, a count is negative or a time is invalid' FROM conversation_compaction_telemetry
 WHERE cache_state NOT IN ('hot', 'cold', 'unknown') OR last_activity_band NOT IN ('low', 'medium', 'high') OR consecutive_cold_observations < 0 OR turns_since_leaf_compaction < 0 OR julianday(updated_at) IS NULL;

-- name: conversation_compaction_maintenance.fields
SELECT conversation_id, 'pending or running is neither 0 nor 1, or a time is invalid' FROM conversation_compaction_maintenance
 WHERE pending NOT IN (0, 1) OR running NOT IN (0, 1) OR retry_attempts < 0 OR maintenance_revision < 0
    OR julianday(updated_at) IS NULL OR (requested_at IS NOT NULL AND julianday(requested_at) IS NULL);

-- name: focus_briefs.fields
SELECT brief_id, 'its status is unknown, a count is negative or a time is invalid' FROM focus_briefs
 WHERE status NOT IN ('draft', 'active', 'superseded', 'failed', 'inactive') OR token_count < 0 OR target_tokens < 0 OR julianday(created_at) IS NULL;

-- name: focus_briefs.rows
SELECT DISTINCT b.brief_id, 'it was written from summaries of another conversation' FROM focus_briefs b
  JOIN focus_brief_sources f USING (brief_id) JOIN summaries s ON s.summary_id = f.summary_id
 WHERE s.conversation_id <> b.conversation_id;

-- name: focus_brief_sources.rows
SELECT brief_id, 'its source ' || summary_id || ' is not in the archive' FROM focus_brief_sources
 WHERE summary_id NOT IN (SELECT summary_id FROM summaries);

-- name: lcm_migration_state.fields
SELECT step_name, 'its version or time is invalid' FROM lcm_migration_state
 WHERE algorithm_version < 1 OR julianday(completed_at) IS NULL;

-- name: context_log.fields
SELECT log_id, 'its ids are not JSON, or its time is invalid' FROM context_log
 WHERE NOT json_valid(removed) OR NOT json_valid(added) OR julianday(at) IS NULL OR tokens_before < 0 OR tokens_after < 0;

-- name: hidden_items.rows
SELECT h.item, 'its message or summary is missing or belongs to another conversation' FROM hidden_items h
  LEFT JOIN messages m ON m.message_id = h.item LEFT JOIN summaries s ON s.summary_id = h.item
 WHERE h.conversation_id <> coalesce(m.conversation_id, s.conversation_id, -1) OR h.cause = '';

-- name: hidden_items.shown
SELECT h.item, 'it is hidden and in the context' FROM context_items c
  JOIN hidden_items h ON h.conversation_id = c.conversation_id AND h.item = coalesce(c.message_id, c.summary_id);

-- name: turn_keys.fields
SELECT turn_key, 'its count or time is invalid' FROM turn_keys WHERE message_count < 0 OR julianday(at) IS NULL;

-- name: last_windows.rows
SELECT w.conversation_id, 'it points at messages of another conversation' FROM last_windows w
  LEFT JOIN messages a ON a.message_id = w.first_message_id LEFT JOIN messages b ON b.message_id = w.last_message_id
 WHERE (w.first_message_id IS NOT NULL AND a.conversation_id IS NOT w.conversation_id)
    OR (w.last_message_id IS NOT NULL AND b.conversation_id IS NOT w.conversation_id)
    OR w.length < 0 OR (length(w.chain) <> 16 AND (length(w.chain) < 8 * w.length OR (length(w.chain) - 8 * w.length) % 16));

-- name: ingest_state.fields
SELECT conversation_id, 'its counters do not add up' FROM ingest_state
 WHERE stored < 0 OR replayed < 0 OR skipped < 0 OR ambiguous < 0 OR revised < 0 OR likely < 0 OR seen <> stored + replayed + skipped
    OR (blocked_at IS NULL) <> (blocked_reason IS NULL) OR typeof(context_tokens) NOT IN ('null', 'integer');

-- name: ingest_state.tokens
-- Another program that folds or clears a context does not count along: what it wrote is not indexed, or recorded.
SELECT i.conversation_id, 'its context has a different number of tokens than was counted' FROM ingest_state i
 WHERE i.context_tokens IS NOT NULL AND i.context_seq IS (SELECT max(seq) FROM messages m WHERE m.conversation_id = i.conversation_id)
   AND i.context_tokens <> (SELECT coalesce(sum(coalesce(m.token_count, s.token_count)), 0) FROM context_items c
         LEFT JOIN messages m USING (message_id) LEFT JOIN summaries s USING (summary_id) WHERE c.conversation_id = i.conversation_id)
   AND NOT EXISTS (SELECT 1 FROM summaries s LEFT JOIN summary_extras x USING (summary_id)
         WHERE s.conversation_id = i.conversation_id AND x.summary_id IS NULL)
   AND NOT EXISTS (SELECT 1 FROM conversation_bootstrap_state b WHERE b.conversation_id = i.conversation_id
         AND datetime(b.soft_reset_pruned_at) > coalesce((SELECT max(datetime(g.at)) FROM context_log g
               WHERE g.conversation_id = b.conversation_id AND g.action = 'new'), ''));

-- name: leases.fields
SELECT name, 'it has no owner, or its end is invalid' FROM leases WHERE owner = '' OR julianday(expires_at) IS NULL;

-- name: spend_ledger.fields
SELECT spend_id, 'its kind is unknown, a count is negative or a time is invalid' FROM spend_ledger
 WHERE kind NOT IN ('call', 'reset', 'backoff') OR julianday(at) IS NULL OR input_tokens < 0 OR output_tokens < 0
    OR (until IS NOT NULL AND julianday(until) IS NULL);

-- name: breakers.fields
SELECT breaker_key, 'its count or time is invalid' FROM breakers WHERE failures < 0 OR julianday(updated_at) IS NULL;

-- name: expansion_grants.fields
SELECT grant_id, 'its scope is not JSON, or its limits are invalid' FROM expansion_grants
 WHERE NOT json_valid(conversation_ids) OR NOT json_valid(summary_ids) OR token_cap < 0 OR tokens_used < 0
    OR max_depth < 0 OR julianday(expires_at) IS NULL;

-- name: pins.rows
SELECT p.pin_id, 'its message is missing or belongs to another conversation' FROM pins p LEFT JOIN messages m USING (message_id)
 WHERE p.message_id IS NOT NULL AND m.conversation_id IS NOT p.conversation_id;

-- name: pins.fields
SELECT pin_id, 'it is neither a text nor a message, or its time is invalid' FROM pins
 WHERE (message_id IS NULL) = (content IS NULL) OR julianday(at) IS NULL;

-- name: token_factors.fields
SELECT model, 'its ratio is invalid' FROM token_factors
 WHERE ratio <= 0 OR ratio > 100 OR spread < 0 OR observations < 0 OR julianday(updated_at) IS NULL
    OR (typeof(ratio), typeof(spread), typeof(observations)) <> ('real', 'real', 'integer');

-- name: stubborn_chunks.fields
SELECT conversation_id, 'a remembered chunk has no ids, no known kind or no time' FROM stubborn_chunks
 WHERE chunk = '' OR kind NOT IN ('unshrinkable', 'blank', 'blank summary') OR julianday(at) IS NULL;

-- name: history_budgets.fields
SELECT conversation_id, 'its history budget is invalid' FROM history_budgets
 WHERE window <= 0 OR beside < 0 OR frame < 0 OR reply < 0 OR factor <= 0 OR counted_frame < 0 OR longest_reply < 0
    OR julianday(updated_at) IS NULL OR typeof(factor) <> 'real' OR typeof(counted_at) NOT IN ('null', 'integer')
    OR (typeof(window), typeof(beside), typeof(frame)) <> ('integer', 'integer', 'integer')
    OR (typeof(reply), typeof(counted_frame), typeof(longest_reply)) <> ('integer', 'integer', 'integer');

-- name: prompt_evidence.fields
SELECT evidence_id, 'its quotes are not JSON, or its digest, tokens or time are invalid' FROM prompt_evidence
 WHERE NOT json_valid(quotes) OR (digest IS NULL) <> (quotes = '[]') OR tokens < 0 OR julianday(at) IS NULL
    OR (typeof(after_id), typeof(fold), typeof(tokens)) <> ('integer', 'integer', 'integer')
    OR (message_id IS NULL) <> (asked IS NOT NULL) OR (digest IS NOT NULL AND length(CAST(digest AS BLOB)) <> 12);

-- name: prompt_evidence.rows
SELECT e.evidence_id, 'its user message belongs to another conversation' FROM prompt_evidence e
  LEFT JOIN messages m USING (message_id) WHERE e.message_id IS NOT NULL AND m.conversation_id IS NOT e.conversation_id;

-- name: prompt_receipts.fields
SELECT receipt_id, 'its detail is not JSON, or its tokens or time are invalid' FROM prompt_receipts
 WHERE NOT json_valid(detail) OR tokens < 0 OR julianday(at) IS NULL
    OR (typeof(tokens), typeof(capacity)) <> ('integer', 'integer');

-- name: archive_state.fields
SELECT name, 'its value is invalid' FROM archive_state
 WHERE name IN ('schema', 'indexed_through') AND (typeof(value) <> 'integer' OR value < 0);

-- name: page
-- Messages with the values derived when they were stored.
SELECT m.message_id, m.identity_hash, x.fingerprint, CAST(x.digest AS BLOB), d.sz FROM messages m
  LEFT JOIN message_extras x USING (message_id) LEFT JOIN message_index_docsize d ON d.id = m.message_id
 WHERE m.message_id > :after ORDER BY m.message_id LIMIT :limit;

-- name: page_passages
SELECT p.message_id, p.start, p.length, d.sz, p.passage_id FROM message_passages p
  LEFT JOIN message_index_docsize d ON d.id = :base + p.passage_id
 WHERE p.message_id BETWEEN :first AND :last ORDER BY p.message_id, p.start;

-- name: table_of_index
SELECT tbl_name FROM sqlite_master WHERE type = 'index' AND name = :name;

-- name: rewritten
-- Whether lossless-claw has written the text of a summary: its own search table has the same.
SELECT s.content, CAST(x.digest AS BLOB) FROM summaries s JOIN summaries_fts f ON f.summary_id = s.summary_id
  LEFT JOIN summary_extras x ON x.summary_id = s.summary_id WHERE s.summary_id = :id AND f.content = s.content;

-- name: conversations_of
SELECT DISTINCT conversation_id FROM summaries WHERE summary_id IN (SELECT value FROM json_each(:ids));

-- name: summary_digests
SELECT s.summary_id, s.content, CAST(x.digest AS BLOB), d.sz, x.index_id FROM summaries s
  LEFT JOIN summary_extras x USING (summary_id) LEFT JOIN summary_index_docsize d ON d.id = x.index_id
 WHERE s.summary_id > :after ORDER BY s.summary_id LIMIT :limit;

-- name: not_smaller
-- Summaries that are not smaller than what they cover, and their models.
SELECT s.summary_id, s.model FROM summaries s
 WHERE s.content <> '[forgotten]' AND s.token_count >= CASE s.kind WHEN 'leaf' THEN s.source_message_token_count ELSE (
       SELECT sum(c.token_count) FROM summary_parents p JOIN summaries c ON c.summary_id = p.parent_summary_id
        WHERE p.summary_id = s.summary_id) END;

-- name: unreachable
-- Messages that are not in the context, not under a summary in it, and not hidden with a cause.
WITH RECURSIVE reached (summary_id) AS (
    SELECT summary_id FROM context_items WHERE conversation_id = :conversation_id AND summary_id IS NOT NULL
    UNION
    SELECT item FROM hidden_items WHERE conversation_id = :conversation_id AND typeof(item) = 'text'
    UNION
    SELECT p.parent_summary_id FROM summary_parents p JOIN reached USING (summary_id)
)
SELECT m.message_id FROM messages m
 WHERE m.conversation_id = :conversation_id
   AND m.message_id NOT IN (SELECT message_id FROM context_items WHERE conversation_id = :conversation_id AND message_id IS NOT NULL)
   AND m.message_id NOT IN (SELECT l.message_id FROM summary_messages l JOIN reached USING (summary_id))
   AND m.message_id NOT IN (SELECT item FROM hidden_items WHERE conversation_id = :conversation_id)
 ORDER BY m.seq;

-- name: covered_twice
-- Messages that are both in the context and under a summary in it, or under two.
WITH RECURSIVE roots (root, summary_id) AS (
    SELECT summary_id, summary_id FROM context_items WHERE conversation_id = :conversation_id AND summary_id IS NOT NULL
    UNION
    SELECT roots.root, p.parent_summary_id FROM summary_parents p JOIN roots USING (summary_id)
), covers (message_id, root) AS (
    SELECT l.message_id, roots.root FROM summary_messages l JOIN roots USING (summary_id)
    UNION ALL
    SELECT message_id, 'context' FROM context_items WHERE conversation_id = :conversation_id AND message_id IS NOT NULL
)
SELECT message_id FROM covers GROUP BY message_id HAVING count(*) > 1 ORDER BY message_id;

-- name: conversation_ids
SELECT conversation_id FROM conversations ORDER BY conversation_id;

-- name: file_places
SELECT file_id, storage_uri, byte_size, conversation_id FROM large_files ORDER BY file_id;

-- name: transcript_state.fields
SELECT conversation_id, 'it has no valid path of a transcript' FROM transcript_state
 WHERE read_to < 0 OR lines < 0 OR NOT json_valid(coalesce(front, '[]'));

-- name: transcript_epochs.fields
SELECT epoch_id, 'its decision, count or time is invalid' FROM transcript_epochs
 WHERE decision NOT IN ('first', 'continued', 'fresh', 'small', 'held', 'accepted', 'refused')
    OR messages < 0 OR julianday(at) IS NULL;

-- name: transcript_records.fields
SELECT conversation_id || ', ' || record_key, 'it differs from what was written' FROM transcript_records
 WHERE after_seq < 0 OR hex(substr(record, 1, 1)) <> '78';

-- name: pruned_histories.fields
SELECT number, 'its marks or its time are invalid' FROM pruned_histories
 WHERE octet_length(marks) % 20 <> 0 OR julianday(at) IS NULL;

-- name: fork_sources.fields
SELECT conversation_id || ', ' || source_id, 'the conversation that it depends on is missing' FROM fork_sources
 WHERE source_id NOT IN (SELECT conversation_id FROM conversations);

-- name: conversation_extras.fields
SELECT conversation_id, 'its project is no text' FROM conversation_extras WHERE typeof(project) <> 'text' OR project = '';

-- name: message_vectors.fields
SELECT message_id, 'its digest has not eight bytes, or it has no vector' FROM message_vectors
 WHERE octet_length(digest) <> 8 OR typeof(vector) <> 'blob' OR octet_length(vector) = 0
    OR octet_length(vector) <> (SELECT octet_length(vector) FROM message_vectors LIMIT 1);

-- name: former_summaries.fields
SELECT log_id || ', ' || summary_id, 'it differs from what was written' FROM former_summaries WHERE NOT json_valid(state);
