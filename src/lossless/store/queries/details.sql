-- One record with everything that belongs to it. Where related rows must be of the same conversation, a unary + keeps
-- that condition from selecting the index: the read starts at the record, not at its whole conversation.

-- name: depths
-- Of one conversation, or of those from :first to :last.
SELECT kind, depth, count(*), sum(token_count), sum(source_message_token_count),
       CAST(min(begins) FILTER (WHERE julianday(begins) IS NOT NULL) AS BLOB),
       CAST(max(ends) FILTER (WHERE julianday(ends) IS NOT NULL) AS BLOB)
  FROM (SELECT *, coalesce(earliest_at, created_at) AS begins, coalesce(latest_at, created_at) AS ends FROM summaries
         WHERE conversation_id BETWEEN :first AND :last)
 GROUP BY depth, kind ORDER BY depth, kind;

-- name: context
SELECT c.item_type, count(*) AS count, coalesce(sum(coalesce(m.token_count, s.token_count)), 0) AS tokens
  FROM context_items c
  LEFT JOIN messages m ON m.message_id = c.message_id
  LEFT JOIN summaries s ON s.summary_id = c.summary_id
 WHERE c.conversation_id = :conversation_id GROUP BY c.item_type ORDER BY min(c.ordinal);

-- name: context_count
SELECT count(*) FROM context_items WHERE conversation_id = :conversation_id;

-- name: hidden
SELECT cause, count(*) FROM hidden_items WHERE conversation_id = :conversation_id GROUP BY cause ORDER BY cause;

-- name: files
SELECT count(*) AS count, coalesce(sum(byte_size), 0) AS bytes, max(strftime('%Y-%m-%dT%H:%M:%fZ', created_at)) AS latest_at
  FROM large_files WHERE conversation_id = :conversation_id;

-- name: brief_count
SELECT count(*) FROM focus_briefs WHERE conversation_id = :conversation_id;

-- name: active_brief
SELECT brief_id, CAST(prompt AS BLOB) AS prompt, token_count, target_tokens, covered_latest_at, covered_message_seq, created_at, updated_at
  FROM focus_briefs WHERE conversation_id = :conversation_id AND status = 'active'
 ORDER BY created_at DESC, brief_id DESC LIMIT 1;

-- name: telemetry
-- Of one conversation, or of those that changed last.
SELECT conversation_id, cache_state, CAST(provider AS BLOB), CAST(model AS BLOB), CAST(retention AS BLOB), last_observed_prompt_token_count,
       last_observed_cache_read, last_observed_cache_write, last_observed_cache_hit_at, last_observed_cache_break_at,
       consecutive_cold_observations, last_activity_band, last_api_call_at, last_cache_touch_at, last_leaf_compaction_at,
       turns_since_leaf_compaction, tokens_accumulated_since_leaf_compaction, updated_at
  FROM conversation_compaction_telemetry WHERE conversation_id BETWEEN :first AND :last
 ORDER BY updated_at DESC, conversation_id DESC LIMIT :limit;

-- name: frontier
SELECT CAST(session_file_path AS BLOB) AS session_file_path, CAST(session_header_id AS BLOB) AS session_header_id,
       last_seen_size, last_seen_mtime_ms, last_processed_offset, CAST(last_processed_entry_id AS BLOB) AS last_processed_entry_id,
       CAST(last_processed_entry_hash AS BLOB) AS last_processed_entry_hash, fork_bounded, fork_source_message_count,
       soft_reset_pruned_at, updated_at
  FROM conversation_bootstrap_state WHERE conversation_id = :conversation_id;

-- name: message_status
SELECT (SELECT min(c.ordinal) FROM context_items c WHERE c.conversation_id = m.conversation_id AND c.message_id = m.message_id),
       (SELECT min(s.summary_id) FROM summary_messages l JOIN summaries s ON s.summary_id = l.summary_id
         WHERE l.message_id = m.message_id AND +s.conversation_id = m.conversation_id),
       (SELECT h.cause FROM hidden_items h WHERE h.conversation_id = m.conversation_id AND h.item = +m.message_id)
  FROM messages m WHERE m.message_id = :id;

-- name: sources
SELECT l.parent_summary_id
  FROM summaries s
  JOIN summary_parents l ON l.summary_id = s.summary_id
  JOIN summaries o ON o.summary_id = l.parent_summary_id AND +o.conversation_id = s.conversation_id
 WHERE s.summary_id = :id ORDER BY l.ordinal, l.parent_summary_id;

-- name: used_in
SELECT l.summary_id
  FROM summaries s
  JOIN summary_parents l ON l.parent_summary_id = s.summary_id
  JOIN summaries o ON o.summary_id = l.summary_id AND +o.conversation_id = s.conversation_id
 WHERE s.summary_id = :id ORDER BY l.summary_id;

-- name: source_messages
SELECT l.message_id
  FROM summaries s
  JOIN summary_messages l ON l.summary_id = s.summary_id
  JOIN messages m ON m.message_id = l.message_id AND +m.conversation_id = s.conversation_id
 WHERE s.summary_id = :id ORDER BY l.ordinal, l.message_id;
