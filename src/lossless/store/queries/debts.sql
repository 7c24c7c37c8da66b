-- Deferred compactions: one row per conversation. Upstream's table, upstream's columns.

-- name: get
SELECT conversation_id, pending, requested_at, reason, running, last_started_at, last_finished_at, last_failure_summary, token_budget,
       current_token_count, projected_token_count, raw_tokens_outside_tail, context_threshold, context_threshold_source,
       context_fresh_tail_count, context_leaf_chunk_tokens, retry_attempts, next_attempt_after, resolution_reason,
       resolved_at, maintenance_revision, updated_at
  FROM conversation_compaction_maintenance WHERE conversation_id = :conversation_id;

-- name: put
INSERT OR REPLACE INTO conversation_compaction_maintenance (
       conversation_id, pending, requested_at, reason, running, last_started_at, last_finished_at, last_failure_summary,
       token_budget, current_token_count, projected_token_count, raw_tokens_outside_tail, context_threshold,
       context_threshold_source, context_fresh_tail_count, context_leaf_chunk_tokens, retry_attempts, next_attempt_after,
       resolution_reason, resolved_at, maintenance_revision, updated_at)
VALUES (:conversation_id, :pending, :requested_at, :reason, :running, :last_started_at, :last_finished_at,
        :last_failure_summary, :token_budget, :current_token_count, :projected_token_count, :raw_tokens_outside_tail,
        :context_threshold, :context_threshold_source, :context_fresh_tail_count, :context_leaf_chunk_tokens,
        :retry_attempts, :next_attempt_after, :resolution_reason, :resolved_at, :maintenance_revision, :updated_at);

-- name: pending
-- lossless-claw clears the pending mark when it starts: one of its runs that was killed is only marked as running.
SELECT d.conversation_id FROM conversation_compaction_maintenance d JOIN conversations c USING (conversation_id)
 WHERE (d.pending = 1 OR d.running = 1 AND (d.last_started_at IS NULL OR julianday(d.last_started_at) NOT BETWEEN
        julianday(:dead) AND julianday(:now))) AND (:all OR c.active = 1) ORDER BY d.requested_at, d.conversation_id;

-- name: observe
INSERT INTO conversation_compaction_telemetry (conversation_id, last_observed_cache_read, last_observed_cache_write,
       last_observed_prompt_token_count, last_observed_cache_hit_at, last_observed_cache_break_at, cache_state,
       consecutive_cold_observations, turns_since_leaf_compaction, tokens_accumulated_since_leaf_compaction,
       last_api_call_at, last_cache_touch_at, provider, model, updated_at)
VALUES (:conversation_id, :cache_read, :cache_write, :prompt_tokens, CASE WHEN :state = 'hot' THEN :now END, CASE WHEN :state = 'cold' THEN :now END,
        :state, :state = 'cold', 1, :tokens, :now, CASE WHEN :cache_read > 0 OR :cache_write > 0 THEN :now END, :provider, :model, :now)
    ON CONFLICT (conversation_id) DO UPDATE SET
       last_observed_cache_read = excluded.last_observed_cache_read,
       last_observed_cache_write = excluded.last_observed_cache_write,
       last_observed_prompt_token_count = excluded.last_observed_prompt_token_count,
       last_observed_cache_hit_at = coalesce(excluded.last_observed_cache_hit_at, last_observed_cache_hit_at),
       last_observed_cache_break_at = coalesce(excluded.last_observed_cache_break_at, last_observed_cache_break_at),
       cache_state = excluded.cache_state,
       consecutive_cold_observations = CASE WHEN :state = 'cold' THEN consecutive_cold_observations + 1 ELSE 0 END,
       turns_since_leaf_compaction = turns_since_leaf_compaction + 1,
       tokens_accumulated_since_leaf_compaction = tokens_accumulated_since_leaf_compaction + :tokens,
       last_api_call_at = :now, last_cache_touch_at = coalesce(excluded.last_cache_touch_at, last_cache_touch_at),
       provider = coalesce(:provider, provider), model = coalesce(:model, model), updated_at = :now;

-- name: leaf_compacted
UPDATE conversation_compaction_telemetry
   SET last_leaf_compaction_at = :now, turns_since_leaf_compaction = 0, tokens_accumulated_since_leaf_compaction = 0, updated_at = :now
 WHERE conversation_id = :conversation_id;
