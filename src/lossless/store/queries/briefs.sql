-- Focus briefs.

-- name: insert
INSERT INTO focus_briefs (brief_id, conversation_id, session_key, prompt, content, status, token_count, target_tokens,
                          covered_latest_at, covered_message_seq, source_context_hash, generator_run_id, raw_result_json, error,
                          created_at, updated_at)
VALUES (:id, :conversation_id, :session_key, :prompt, :content, :status, :tokens, :target_tokens, :latest,
        :covered_message_seq, :context_hash, :run, :raw, :error, :now, :now);

-- name: add_source
INSERT OR IGNORE INTO focus_brief_sources (brief_id, summary_id, ordinal, role, created_at) VALUES (?, ?, ?, ?, ?);

-- name: supersede
UPDATE focus_briefs SET status = 'superseded', superseded_at = :now, updated_at = :now
 WHERE conversation_id = :conversation_id AND status IN ('draft', 'active') AND brief_id <> :id;

-- name: deactivate
UPDATE focus_briefs SET status = 'inactive', updated_at = datetime(:now)
 WHERE conversation_id = :conversation_id AND status IN ('draft', 'active');

-- name: set_status
UPDATE focus_briefs SET status = :status, superseded_at = NULL, updated_at = datetime(:now) WHERE brief_id = :id;

-- name: newest
SELECT brief_id, conversation_id, prompt, content, status, token_count, target_tokens, covered_latest_at, covered_message_seq,
       source_context_hash, error, created_at, raw_result_json
  FROM focus_briefs WHERE conversation_id = :conversation_id ORDER BY created_at DESC, rowid DESC LIMIT :limit;

-- name: sources
SELECT summary_id, role FROM focus_brief_sources WHERE brief_id = :id ORDER BY role, ordinal;

-- name: since
-- Messages stored after a seq, their tokens, and summaries made since a moment.
SELECT (SELECT count(*) FROM messages WHERE conversation_id = :conversation_id AND seq > :seq),
       (SELECT coalesce(sum(token_count), 0) FROM messages WHERE conversation_id = :conversation_id AND seq > :seq),
       (SELECT count(*) FROM summaries WHERE conversation_id = :conversation_id AND julianday(created_at) > julianday(:at));
