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
SELECT role, summary_id FROM focus_brief_sources WHERE brief_id = :id ORDER BY role, ordinal;

-- name: since
-- Messages stored after a brief, their tokens, and summaries made since. A brief of another program says only which messages
-- it covers.
WITH brief (conversation_id, seq, at) AS (
    SELECT conversation_id, coalesce(CASE WHEN json_type(iif(json_valid(raw_result_json), raw_result_json, '{}'), '$.lastSeq') = 'integer'
                                          THEN raw_result_json ->> '$.lastSeq' END, covered_message_seq, 0), created_at
      FROM focus_briefs WHERE brief_id = :id
)
SELECT (SELECT count(*) FROM messages m WHERE m.conversation_id = b.conversation_id AND m.seq > b.seq),
       (SELECT coalesce(sum(m.token_count), 0) FROM messages m WHERE m.conversation_id = b.conversation_id AND m.seq > b.seq),
       (SELECT count(*) FROM summaries s
         WHERE s.conversation_id = b.conversation_id AND julianday(s.created_at) > coalesce(julianday(b.at), 0))
  FROM brief b;
