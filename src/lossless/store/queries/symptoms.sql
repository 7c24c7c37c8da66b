-- Checks of `lcm doctor`. Every query is cheap: it reads few rows, or counts.

-- name: suspects
-- Summaries that may be broken; the exact problem is determined in Python.
SELECT summary_id, conversation_id, content, model FROM summaries
 WHERE (:conversation_id IS NULL OR conversation_id = :conversation_id) AND (
       trim(content, ' ' || char(9, 10, 13)) = '' OR model IN ('emergency-fallback', 'unknown')
    OR instr(content, '[LCM fallback summary') > 0 OR instr(content, '[Truncated from ') > 0)
 ORDER BY depth, earliest_at, summary_id;

-- name: summaries_in_context
SELECT summary_id FROM context_items WHERE conversation_id = :conversation_id AND summary_id IS NOT NULL ORDER BY ordinal;

-- name: unindexed
SELECT (SELECT count(*) FROM messages m LEFT JOIN message_extras x USING (message_id) WHERE x.digest IS NULL),
       (SELECT count(*) FROM summaries s LEFT JOIN summary_extras x USING (summary_id) WHERE x.summary_id IS NULL);

-- name: lost_from_index
-- Messages that were indexed and whose index row is missing, for the first passage or a further one.
WITH lost (message_id) AS (
    SELECT x.message_id FROM message_extras x JOIN messages m USING (message_id)
     WHERE substr(x.digest, 1, 8) <> :blank AND NOT EXISTS (SELECT 1 FROM message_index_docsize d WHERE d.id = x.message_id)
    UNION
    SELECT p.message_id FROM message_passages p JOIN messages m USING (message_id)
     WHERE NOT EXISTS (SELECT 1 FROM message_index_docsize d WHERE d.id = :base + p.passage_id)
)
SELECT message_id, count(*) OVER () FROM lost ORDER BY message_id LIMIT :limit;

-- name: gone_from_archive
SELECT d.id, count(*) OVER () FROM message_index_docsize d
 WHERE (d.id < :base AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.message_id = d.id))
    OR (d.id >= :base AND NOT EXISTS (SELECT 1 FROM message_passages p WHERE p.passage_id = d.id - :base))
 LIMIT :limit;

-- name: gone_summaries
SELECT count(*) FROM summary_index_docsize d WHERE NOT EXISTS (SELECT 1 FROM summary_extras x WHERE x.index_id = d.id);

-- name: summary_texts
SELECT s.summary_id, s.content, x.digest, EXISTS (SELECT 1 FROM summary_index_docsize d WHERE d.id = x.index_id)
  FROM summaries s JOIN summary_extras x USING (summary_id) WHERE typeof(s.content) = 'text';

-- name: debts
SELECT d.conversation_id, c.session_key, c.active, d.pending, d.running, d.reason, d.requested_at, d.last_started_at,
       d.last_failure_summary, d.retry_attempts, d.next_attempt_after, d.maintenance_revision,
       EXISTS (SELECT 1 FROM leases l WHERE l.name = 'compact:' || d.conversation_id AND l.expires_at > :now)
  FROM conversation_compaction_maintenance d JOIN conversations c USING (conversation_id)
 WHERE d.pending = 1 OR d.running = 1 ORDER BY c.active, d.requested_at, d.conversation_id;

-- name: duplicates
-- Rows that older engines stored twice: the same words, role and second, adjacent.
SELECT b.conversation_id, count(*), min(b.message_id), max(b.message_id) FROM messages b
  JOIN messages a ON a.conversation_id = b.conversation_id AND a.seq = b.seq - 1
 WHERE a.identity_hash = b.identity_hash AND a.role = b.role AND a.created_at = b.created_at AND b.role <> 'tool'
   AND (a.transcript_entry_id IS NULL OR b.transcript_entry_id IS NULL)
 GROUP BY b.conversation_id ORDER BY b.conversation_id;

-- name: open_breakers
SELECT breaker_key, failures, open_until FROM breakers WHERE open_until > :now ORDER BY breaker_key;

-- name: schema
SELECT value FROM archive_state WHERE name = 'schema';

-- name: sqlite
SELECT sqlite_version();

-- name: null_subagent_context
-- Only the first words of the user identify a sub-agent; a host may have put the time before them. Conversations
-- without a key are never closed, so an inactive one that is not leased counts as well.
SELECT c.conversation_id FROM conversations c
 WHERE coalesce(trim(c.session_key), '') = ''
   AND (c.active = 0
        OR (coalesce((SELECT max(julianday(m.created_at)) FROM messages m WHERE m.conversation_id = c.conversation_id),
                     julianday(c.created_at)) < julianday(:silent_since)
            AND NOT EXISTS (SELECT 1 FROM leases l WHERE l.name = 'compact:' || c.conversation_id AND l.expires_at > :now)))
   AND EXISTS (
       SELECT 1 FROM messages m WHERE m.conversation_id = c.conversation_id
          AND m.seq = (SELECT min(seq) FROM messages n WHERE n.conversation_id = c.conversation_id AND n.role = 'user')
          AND (ltrim(m.content) LIKE '[Subagent Context]%' OR substr(ltrim(m.content), 1, 80) LIKE '[%] [Subagent Context]%'));

-- name: archived_subagents
-- The third part of the key identifies the owner; the parts after it may be anything.
SELECT conversation_id FROM conversations
 WHERE active = 0 AND session_key GLOB 'agent:*'
   AND substr(session_key, 6 + instr(substr(session_key, 7), ':')) GLOB ':subagent:*';

-- name: cron_sessions
-- Each run of a job is a separate conversation: closed ones are finished, and so is the last one when it is inactive.
SELECT c.conversation_id FROM conversations c
 WHERE c.session_key GLOB 'agent:*' AND substr(c.session_key, 6 + instr(substr(c.session_key, 7), ':')) GLOB ':cron:*'
   AND (c.active = 0
        OR (coalesce((SELECT max(julianday(m.created_at)) FROM messages m WHERE m.conversation_id = c.conversation_id),
                     julianday(c.created_at)) < julianday(:silent_since)
            AND NOT EXISTS (SELECT 1 FROM leases l WHERE l.name = 'compact:' || c.conversation_id AND l.expires_at > :now)));

-- name: close_debt
UPDATE conversation_compaction_maintenance
   SET pending = 0, running = 0, next_attempt_after = NULL, resolution_reason = :reason, resolved_at = :now,
       maintenance_revision = maintenance_revision + 1, updated_at = :now
 WHERE conversation_id = :conversation_id AND pending = 1 AND maintenance_revision = :revision;

-- name: broken_references
SELECT "table", parent FROM pragma_foreign_key_check;

-- name: hanging
-- Context items whose message or summary is not in the archive.
SELECT c.conversation_id, c.ordinal, CAST(coalesce(c.summary_id, 'msg#' || c.message_id) AS TEXT) FROM context_items c
 WHERE (c.message_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.message_id = c.message_id))
    OR (c.summary_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM summaries s WHERE s.summary_id = c.summary_id))
 ORDER BY c.conversation_id, c.ordinal;

-- name: uncovered
-- By conversation, messages that are not in its context, not under a summary in it, and not hidden with a cause.
WITH RECURSIVE reached (conversation_id, summary_id) AS (
    SELECT conversation_id, summary_id FROM context_items WHERE summary_id IS NOT NULL
    UNION
    SELECT conversation_id, item FROM hidden_items WHERE typeof(item) = 'text'
    UNION
    SELECT r.conversation_id, p.parent_summary_id FROM reached r JOIN summary_parents p ON p.summary_id = r.summary_id
), covered (conversation_id, message_id) AS MATERIALIZED (
    SELECT conversation_id, message_id FROM context_items WHERE message_id IS NOT NULL
    UNION
    SELECT r.conversation_id, l.message_id FROM reached r JOIN summary_messages l ON l.summary_id = r.summary_id
    UNION
    SELECT conversation_id, item FROM hidden_items WHERE typeof(item) = 'integer'
)
SELECT m.conversation_id, count(*), min(m.message_id), max(m.message_id) FROM messages m
 WHERE (m.conversation_id, m.message_id) NOT IN (SELECT conversation_id, message_id FROM covered)
 GROUP BY m.conversation_id ORDER BY m.conversation_id;

-- name: source_links
SELECT summary_id, parent_summary_id FROM summary_parents;

-- name: without_sources
SELECT s.conversation_id, s.summary_id FROM summaries s
 WHERE (s.kind = 'leaf' AND NOT EXISTS (SELECT 1 FROM summary_messages l WHERE l.summary_id = s.summary_id))
    OR (s.kind = 'condensed' AND NOT EXISTS (SELECT 1 FROM summary_parents p WHERE p.summary_id = s.summary_id))
 ORDER BY s.conversation_id, s.summary_id;

-- name: no_texts
-- Rows whose text is stored as bytes.
SELECT conversation_id, 'msg#' || message_id FROM messages WHERE typeof(content) <> 'text'
UNION ALL
SELECT conversation_id, summary_id FROM summaries WHERE typeof(content) <> 'text';

-- name: were_here
-- Whether missing messages have left parts, extras or index rows behind.
WITH missing (id) AS (SELECT CAST(substr(value, length('msg#') + 1) AS INTEGER) FROM json_each(:items))
SELECT 1 FROM message_extras WHERE message_id IN (SELECT id FROM missing)
UNION ALL
SELECT 1 FROM message_parts WHERE message_id IN (SELECT id FROM missing)
UNION ALL
SELECT 1 FROM message_index_docsize WHERE id IN (SELECT id FROM missing) LIMIT 1;

-- name: is_folded
-- Whether all of some summaries have their fold in the log.
SELECT 1 WHERE NOT EXISTS (
    SELECT 1 FROM json_each(:ids) j
     WHERE NOT EXISTS (SELECT 1 FROM context_log g WHERE g.action = 'fold' AND json_valid(g.added) AND g.added ->> 0 = j.value));
