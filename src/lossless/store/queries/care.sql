-- Reads for status and listings.

-- name: counts
SELECT (SELECT count(*) FROM conversations), (SELECT count(*) FROM conversations WHERE active = 1),
       (SELECT count(*) FROM messages), (SELECT count(*) FROM summaries), (SELECT count(*) FROM large_files);

-- name: totals
-- Of messages (those with invalid times are counted at the end), context items and deferred compactions.
SELECT m.tokens, m.earliest, m.latest, c.items, c.tokens, d.pending, d.running, d.failed, m.undated
  FROM (SELECT coalesce(sum(tokens), 0) AS tokens, CAST(min(at) FILTER (WHERE day IS NOT NULL) AS BLOB) AS earliest,
               CAST(max(at) FILTER (WHERE day IS NOT NULL) AS BLOB) AS latest, count(*) - count(day) AS undated
          FROM (SELECT token_count AS tokens, created_at AS at,
                       CASE WHEN length(created_at) >= 10 THEN julianday(created_at) END AS day FROM messages)) m,
       (SELECT count(*) AS items, coalesce(sum(coalesce(m.token_count, s.token_count)), 0) AS tokens
          FROM context_items c LEFT JOIN messages m USING (message_id) LEFT JOIN summaries s USING (summary_id)) c,
       (SELECT coalesce(sum(pending), 0) AS pending, coalesce(sum(running), 0) AS running,
               coalesce(sum(last_failure_summary IS NOT NULL), 0) AS failed
          FROM conversation_compaction_maintenance) d;

-- name: ingest_totals
-- When a message was stored last, and when the last summary was written; then the counters.
SELECT CAST(coalesce(max(last_stored_at) FILTER (WHERE julianday(last_stored_at) IS NOT NULL),
                     (SELECT max(created_at) FROM messages WHERE message_id = (SELECT max(message_id) FROM messages))) AS BLOB),
       (SELECT CAST(max(at) AS BLOB) FROM (SELECT max(at) AS at FROM context_log WHERE action = 'fold' UNION ALL SELECT max(created_at) FROM summaries)),
       coalesce(sum(seen), 0), coalesce(sum(stored), 0), coalesce(sum(replayed), 0), coalesce(sum(skipped), 0),
       coalesce(sum(ambiguous), 0), coalesce(sum(revised), 0), coalesce(sum(likely), 0)
  FROM ingest_state;

-- name: blocked
SELECT conversation_id, blocked_at, blocked_reason FROM ingest_state WHERE blocked_at IS NOT NULL ORDER BY conversation_id;

-- name: quarantined
SELECT conversation_id FROM conversations WHERE archive_cause = 'quarantined' AND active = 0 ORDER BY conversation_id;

-- name: sizes
-- Bytes by table and index, without free pages.
SELECT name, sum(pgsize) FROM dbstat WHERE aggregate = TRUE GROUP BY name;

-- name: page_counts
SELECT (SELECT page_count FROM pragma_page_count()) * (SELECT page_size FROM pragma_page_size()),
       (SELECT freelist_count FROM pragma_freelist_count()) * (SELECT page_size FROM pragma_page_size());
