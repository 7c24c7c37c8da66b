-- Our record of the host's sessions.

-- name: by_id
SELECT conversation_id, session_id, session_key, active, created_at, updated_at, archived_at, archive_cause, title, bootstrapped_at
  FROM conversations WHERE conversation_id = :id;

-- name: active_by_key
SELECT conversation_id, session_id, session_key, active, created_at, updated_at, archived_at, archive_cause, title, bootstrapped_at
  FROM conversations WHERE session_key = :key AND active = 1;

-- name: active_by_session
SELECT conversation_id, session_id, session_key, active, created_at, updated_at, archived_at, archive_cause, title, bootstrapped_at
  FROM conversations WHERE session_id = :session_id AND active = 1
 ORDER BY created_at DESC, conversation_id DESC LIMIT 1;

-- name: family_by_key
-- All conversations of a session key, active first, then newest; except quarantined ones.
SELECT conversation_id, session_id, session_key, active, created_at, updated_at, archived_at, archive_cause, title, bootstrapped_at
  FROM conversations WHERE session_key = :key AND coalesce(archive_cause, '') NOT IN ('quarantined', 'refused')
 ORDER BY active DESC, created_at DESC, conversation_id DESC;

-- name: run_of_key
-- One run of a job, closed or not.
SELECT conversation_id, session_id, session_key, active, created_at, updated_at, archived_at, archive_cause, title, bootstrapped_at
  FROM conversations WHERE session_key = :key AND session_id = :session_id
   AND coalesce(archive_cause, '') NOT IN ('quarantined', 'refused')
 ORDER BY active DESC, conversation_id DESC LIMIT 1;

-- name: former
-- The conversation of a session key that was closed last before another one began.
SELECT conversation_id, session_id, session_key, active, created_at, updated_at, archived_at, archive_cause, title, bootstrapped_at
  FROM conversations WHERE session_key = :key AND active = 0 AND conversation_id < :id
   AND coalesce(archive_cause, '') NOT IN ('quarantined', 'refused')
 ORDER BY conversation_id DESC LIMIT 1;

-- name: family_by_session
SELECT conversation_id, session_id, session_key, active, created_at, updated_at, archived_at, archive_cause, title, bootstrapped_at
  FROM conversations WHERE session_id = :session_id AND session_key IS NULL
   AND coalesce(archive_cause, '') NOT IN ('quarantined', 'refused')
 ORDER BY active DESC, created_at DESC, conversation_id DESC;

-- name: insert
INSERT INTO conversations (session_id, session_key, created_at, updated_at) VALUES (:session_id, :key, datetime(:now), datetime(:now));

-- name: rename
UPDATE conversations SET session_key = :key, session_id = :session_id, updated_at = datetime(:now) WHERE conversation_id = :id;

-- name: archive
-- The first cause is kept.
UPDATE conversations
   SET active = 0, archived_at = coalesce(archived_at, datetime(:now)), archive_cause = coalesce(archive_cause, :cause),
       updated_at = datetime(:now)
 WHERE conversation_id = :id;

-- name: closed_for
-- Conversations of the same session that were closed for a cause, last first.
SELECT conversation_id, session_id, session_key, active, created_at, updated_at, archived_at, archive_cause, title, bootstrapped_at
  FROM conversations
 WHERE (session_key = :key OR (:key IS NULL AND session_key IS NULL AND session_id = :session_id))
   AND active = 0 AND archive_cause = :cause
 ORDER BY archived_at DESC, conversation_id DESC LIMIT :limit;

-- name: reopen
UPDATE conversations SET active = 1, archived_at = NULL, archive_cause = NULL, updated_at = datetime(:now)
 WHERE conversation_id = :id;

-- name: mark_bootstrapped
UPDATE conversations SET bootstrapped_at = coalesce(bootstrapped_at, datetime(:now)) WHERE conversation_id = :id;

-- name: give_title
UPDATE conversations SET title = :title WHERE conversation_id = :id AND (title IS NULL OR title = '');

-- name: active_ids
SELECT conversation_id FROM conversations WHERE active = 1 ORDER BY conversation_id;

-- name: quarantine
-- An inactive conversation for messages that have nothing in common with their session's conversation.
INSERT INTO conversations (session_id, session_key, active, archived_at, archive_cause, created_at, updated_at)
VALUES (:session_id, :key, 0, datetime(:now), 'quarantined', datetime(:now), datetime(:now));

-- name: quarantined_of
-- Quarantined conversations of a key, or of a run without one; newest first.
SELECT conversation_id, session_id, session_key, active, created_at, updated_at, archived_at, archive_cause, title, bootstrapped_at
  FROM conversations
 WHERE archive_cause IN ('quarantined', 'refused') AND active = 0
   AND (session_key = :key OR (:key IS NULL AND session_key IS NULL AND session_id = :session_id))
 ORDER BY conversation_id DESC;

-- name: quarantined
SELECT c.conversation_id, c.session_key, c.session_id, c.archive_cause, c.archived_at,
       (SELECT count(*) FROM messages m WHERE m.conversation_id = c.conversation_id),
       (SELECT a.conversation_id FROM conversations a
         WHERE a.active = 1 AND (a.session_key = c.session_key OR (c.session_key IS NULL AND a.session_key IS NULL AND a.session_id = c.session_id))
         ORDER BY a.conversation_id DESC LIMIT 1)
  FROM conversations c WHERE c.archive_cause IN ('quarantined', 'refused') AND c.active = 0 ORDER BY c.conversation_id;

-- name: set_cause
UPDATE conversations SET archive_cause = :cause, updated_at = datetime(:now) WHERE conversation_id = :id;

-- name: project_of
SELECT project FROM conversation_extras WHERE conversation_id = :id;

-- name: set_project
INSERT INTO conversation_extras (conversation_id, project) VALUES (:id, :project)
    ON CONFLICT (conversation_id) DO UPDATE SET project = excluded.project;

-- name: in_project
-- The conversations of a project; quarantined conversations belong to none.
SELECT c.conversation_id FROM conversation_extras x JOIN conversations c USING (conversation_id)
 WHERE x.project = :project AND coalesce(c.archive_cause, '') NOT IN ('quarantined', 'refused');

-- name: of_agent
-- The conversations whose keys begin like this; only those without a project when :alone.
SELECT c.conversation_id FROM conversations c LEFT JOIN conversation_extras x USING (conversation_id)
 WHERE substr(c.session_key, 1, length(:prefix)) = :prefix AND (NOT :alone OR x.project IS NULL)
   AND coalesce(c.archive_cause, '') NOT IN ('quarantined', 'refused');
