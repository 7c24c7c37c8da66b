-- What `lcm doctor` looks for. Every query is cheap: it reads rows that are few, or counts.

-- name: suspects
-- Summaries that may be broken; what exactly is said in Python.
SELECT summary_id, conversation_id, content, model FROM summaries
 WHERE (:conversation_id IS NULL OR conversation_id = :conversation_id) AND (
       trim(content, ' ' || char(9, 10, 13)) = '' OR model IN ('emergency-fallback', 'unknown')
    OR instr(content, '[LCM fallback summary') > 0 OR instr(content, '[Truncated from ') > 0)
 ORDER BY depth, earliest_at, summary_id;

-- name: context_order
SELECT summary_id FROM context_items WHERE conversation_id = :conversation_id AND summary_id IS NOT NULL ORDER BY ordinal;

-- name: unindexed
SELECT (SELECT count(*) FROM messages m LEFT JOIN message_extras x USING (message_id) WHERE x.digest IS NULL),
       (SELECT count(*) FROM summaries s LEFT JOIN summary_extras x USING (summary_id) WHERE x.summary_id IS NULL);

-- name: lost_from_index
SELECT m.message_id FROM message_extras x JOIN messages m USING (message_id)
 WHERE x.digest IS NOT NULL AND NOT EXISTS (SELECT 1 FROM message_index_docsize d WHERE d.id = x.message_id)
   AND trim(m.content, ' ' || char(9, 10, 13)) <> '' LIMIT :limit;

-- name: gone_from_archive
SELECT d.id FROM message_index_docsize d
 WHERE d.id < :base AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.message_id = d.id) LIMIT :limit;

-- name: summary_texts
SELECT s.summary_id, s.content, x.digest FROM summaries s JOIN summary_extras x USING (summary_id);

-- name: debts
SELECT d.conversation_id, c.session_key, c.active, d.pending, d.running, d.reason, d.requested_at, d.last_started_at,
       d.last_failure_summary, d.retry_attempts, d.next_attempt_after, d.maintenance_revision,
       EXISTS (SELECT 1 FROM leases l WHERE l.name = 'compact:' || d.conversation_id AND l.expires_at > :now)
  FROM conversation_compaction_maintenance d JOIN conversations c USING (conversation_id)
 WHERE d.pending = 1 OR d.running = 1 ORDER BY c.active, d.requested_at, d.conversation_id;

-- name: duplicates
-- Rows that older engines stored twice: the same words of the same role in the same second, side by side.
SELECT b.conversation_id, count(*), min(b.message_id) FROM messages b
  JOIN messages a ON a.conversation_id = b.conversation_id AND a.seq = b.seq - 1
 WHERE a.identity_hash = b.identity_hash AND a.role = b.role AND a.created_at = b.created_at AND b.role <> 'tool'
   AND (a.transcript_entry_id IS NULL OR b.transcript_entry_id IS NULL)
 GROUP BY b.conversation_id ORDER BY b.conversation_id;

-- name: open_breakers
SELECT breaker_key, failures, open_until FROM breakers WHERE open_until > :now ORDER BY breaker_key;

-- name: schema
SELECT (SELECT value FROM archive_state WHERE name = 'schema'), sqlite_version();

-- name: steps
SELECT step_name, max(algorithm_version) FROM lcm_migration_state GROUP BY step_name ORDER BY step_name;

-- name: null_subagent_context
-- Nothing but the first words of its user tell that it is a sub-agent's; a host may have put the time before them. Nobody
-- closes a conversation without a key, so one that is silent and that nobody works on counts as well.
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
-- The third word of the key says whose it is; the words behind it may be anything.
SELECT conversation_id FROM conversations
 WHERE active = 0 AND session_key GLOB 'agent:*'
   AND substr(session_key, 6 + instr(substr(session_key, 7), ':')) GLOB ':subagent:*';

-- name: cron_sessions
-- Each run of a job is a conversation of its own: closed ones are finished, and so is the last one when it is silent.
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

-- name: references
PRAGMA foreign_key_check;
