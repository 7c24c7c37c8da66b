-- Reads for status and listings.

-- name: counts
SELECT (SELECT count(*) FROM conversations), (SELECT count(*) FROM conversations WHERE active = 1),
       (SELECT count(*) FROM messages), (SELECT count(*) FROM summaries), (SELECT count(*) FROM large_files);

-- name: message_totals
-- Invalid times are counted separately.
SELECT count(*), coalesce(sum(tokens), 0), CAST(min(at) FILTER (WHERE day IS NOT NULL) AS BLOB),
       CAST(max(at) FILTER (WHERE day IS NOT NULL) AS BLOB), count(*) - count(day)
  FROM (SELECT token_count AS tokens, created_at AS at,
               CASE WHEN length(created_at) >= 10 THEN julianday(created_at) END AS day FROM messages);

-- name: context_totals
SELECT count(*), coalesce(sum(coalesce(m.token_count, s.token_count)), 0) FROM context_items c
  LEFT JOIN messages m USING (message_id) LEFT JOIN summaries s USING (summary_id);

-- name: maintenance_totals
SELECT coalesce(sum(pending), 0), coalesce(sum(running), 0), coalesce(sum(last_failure_summary IS NOT NULL), 0)
  FROM conversation_compaction_maintenance;

-- name: ingest_totals
SELECT coalesce(sum(seen), 0), coalesce(sum(stored), 0), coalesce(sum(replayed), 0), coalesce(sum(skipped), 0),
       coalesce(sum(ambiguous), 0), CAST(max(last_stored_at) AS BLOB), coalesce(sum(revised), 0), coalesce(sum(likely), 0)
  FROM ingest_state;

-- name: blocked
SELECT conversation_id, blocked_at, blocked_reason FROM ingest_state WHERE blocked_at IS NOT NULL ORDER BY conversation_id;

-- name: quarantined
SELECT conversation_id FROM conversations WHERE archive_cause = 'quarantined' AND active = 0 ORDER BY conversation_id;

-- name: newest_row
SELECT CAST(max(created_at) AS BLOB) FROM messages WHERE message_id = (SELECT max(message_id) FROM messages);

-- name: last_compacted
SELECT CAST(max(at) AS BLOB) FROM (SELECT max(at) AS at FROM context_log WHERE action = 'fold' UNION ALL SELECT max(created_at) FROM summaries);

-- name: sizes
-- Bytes by table and index, without free pages.
SELECT name, sum(pgsize) FROM dbstat WHERE aggregate = TRUE GROUP BY name;

-- name: page_counts
SELECT (SELECT page_count FROM pragma_page_count()) * (SELECT page_size FROM pragma_page_size()),
       (SELECT freelist_count FROM pragma_freelist_count()) * (SELECT page_size FROM pragma_page_size());
