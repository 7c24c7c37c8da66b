-- Limits of model calls, across restarts and processes.

-- name: take_lease
-- One owner at a time; an expired lease may be taken.
INSERT INTO leases (name, owner, expires_at) VALUES (:name, :owner, :expires)
    ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, expires_at = excluded.expires_at
     WHERE leases.owner = excluded.owner OR leases.expires_at <= :now;

-- name: lease
SELECT owner FROM leases WHERE name = :name AND expires_at > :now;

-- name: break_lease
DELETE FROM leases WHERE name = :name;

-- name: drop_lease
DELETE FROM leases WHERE name = :name AND owner = :owner;

-- name: ledger
SELECT spend_id, scope, kind, at, until, window_at, result FROM spend_ledger
 WHERE scope = :scope AND at >= :since ORDER BY spend_id;

-- name: add_entry
INSERT INTO spend_ledger (scope, kind, at, until, window_at, result, conversation_id, purpose, model)
VALUES (:scope, :kind, :at, :until, :window_at, :result, :conversation_id, :purpose, :model);

-- name: settle
UPDATE spend_ledger SET result = ?2, until = NULL, model = coalesce(?3, model), input_tokens = ?4, output_tokens = ?5, cost = ?6
 WHERE spend_id = ?1;

-- name: breaker
SELECT failures, open_until FROM breakers WHERE breaker_key = :key;

-- name: set_breaker
INSERT INTO breakers (breaker_key, failures, open_until, updated_at) VALUES (:key, :failures, :open_until, :now)
    ON CONFLICT (breaker_key) DO UPDATE SET
       failures = excluded.failures, open_until = excluded.open_until, updated_at = excluded.updated_at;

-- name: spent
-- Model calls by model: how many, how they ended, what they used.
SELECT coalesce(model, 'unknown'), purpose, count(*), sum(result = 'done'), sum(result IN ('failed', 'auth')),
       coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0),
       json_group_array(CAST(cost AS TEXT)) FILTER (WHERE cost IS NOT NULL), sum(cost IS NULL)
  FROM spend_ledger WHERE kind = 'call' AND at >= :since AND (:conversation_id IS NULL OR conversation_id = :conversation_id)
 GROUP BY 1, 2 ORDER BY 3 DESC;

-- name: factor
-- Anything but a number is unknown.
SELECT ratio, spread, observations FROM token_factors
 WHERE model = :model AND typeof(ratio) = 'real' AND typeof(spread) = 'real' AND typeof(observations) = 'integer';

-- name: set_factor
INSERT INTO token_factors (model, ratio, spread, observations, updated_at)
VALUES (:model, :ratio, :spread, :observations, :now)
    ON CONFLICT (model) DO UPDATE SET ratio = excluded.ratio, spread = excluded.spread,
       observations = excluded.observations, updated_at = excluded.updated_at;

-- name: stubborn
SELECT chunk, kind FROM stubborn_chunks WHERE conversation_id = :conversation_id;

-- name: remember_stubborn
INSERT OR IGNORE INTO stubborn_chunks (conversation_id, chunk, kind, at) VALUES (:conversation_id, :chunk, :kind, :now);

-- name: history
-- Anything but a number is unknown.
SELECT window, beside, frame, reply, factor, counted_frame, counted_at, longest_reply FROM history_budgets
 WHERE conversation_id = :conversation_id AND typeof(factor) = 'real' AND (typeof(window), typeof(beside), typeof(frame))
    = ('integer', 'integer', 'integer') AND (typeof(reply), typeof(counted_frame), typeof(longest_reply))
    = ('integer', 'integer', 'integer') AND typeof(counted_at) IN ('null', 'integer');

-- name: newest_histories
SELECT conversation_id, window, beside, frame, reply, factor FROM history_budgets
 ORDER BY updated_at DESC, conversation_id DESC LIMIT :limit;

-- name: active_histories
SELECT h.conversation_id FROM history_budgets h JOIN conversations c USING (conversation_id) WHERE c.active = 1
 ORDER BY h.updated_at DESC, h.conversation_id DESC;

-- name: set_history
INSERT INTO history_budgets (conversation_id, window, beside, frame, reply, factor, counted_frame, counted_at,
                             longest_reply, updated_at)
VALUES (:conversation_id, :window, :overhead, :frame, :reply, :factor, :counted_frame, :counted_at, :longest_reply, :now)
    ON CONFLICT (conversation_id) DO UPDATE SET window = excluded.window, beside = excluded.beside,
       frame = excluded.frame, reply = excluded.reply, factor = excluded.factor,
       counted_frame = excluded.counted_frame, counted_at = excluded.counted_at,
       longest_reply = excluded.longest_reply, updated_at = excluded.updated_at;
