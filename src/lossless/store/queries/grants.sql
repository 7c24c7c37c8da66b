-- Read permissions of sub-agents, and the state that prevents recursive recall.

-- name: issue
INSERT INTO expansion_grants (grant_id, issuer, holder, conversation_ids, summary_ids, token_cap, max_depth, created_at, expires_at)
VALUES (:id, :issuer, :holder, :conversation_ids, :summary_ids, :token_cap, :max_depth, :created_at, :expires_at);

-- name: by_id
SELECT grant_id, issuer, holder, conversation_ids, summary_ids, token_cap, tokens_used, max_depth, created_at, expires_at, revoked_at
  FROM expansion_grants WHERE grant_id = :id;

-- name: by_holder
-- The newest grant of a session, valid ones first.
SELECT grant_id, issuer, holder, conversation_ids, summary_ids, token_cap, tokens_used, max_depth, created_at, expires_at, revoked_at
  FROM expansion_grants WHERE holder = :holder
 ORDER BY revoked_at IS NULL AND expires_at > :now DESC, created_at DESC, grant_id LIMIT 1;

-- name: charge
UPDATE expansion_grants SET tokens_used = tokens_used + :tokens
 WHERE grant_id = :id AND revoked_at IS NULL AND expires_at > :now AND tokens_used + :tokens <= token_cap;

-- name: revoke_holder
UPDATE expansion_grants SET revoked_at = coalesce(revoked_at, :now) WHERE holder = :holder;

-- name: unbind
UPDATE expansion_grants SET holder = NULL WHERE holder = :holder;

-- name: sweep
-- Delete what ended a while ago.
DELETE FROM expansion_grants WHERE expires_at <= :before OR revoked_at <= :before;

-- name: sweep_marks
DELETE FROM leases WHERE name >= :first AND name < :last AND expires_at <= :now;

-- name: memory
SELECT value FROM archive_state WHERE name = :name;

-- name: remember
INSERT INTO archive_state (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value;
