-- Earlier and reduced wordings of messages; the row of a message has its current text.

-- name: wording
SELECT m.role, m.content, m.token_count, m.stable_event_key, x.format, x.skeleton
  FROM messages m LEFT JOIN message_extras x USING (message_id) WHERE m.message_id = :message_id;

-- name: parts
SELECT ordinal, part_type, text_content, tool_call_id, tool_name, tool_input, tool_output, coalesce(metadata, '{}')
  FROM message_parts WHERE message_id = :message_id ORDER BY ordinal;

-- name: add
INSERT INTO message_versions (message_id, digest, lesser, length, base_id, tokens, at, body)
VALUES (?1, ?2, ?3, ?4, NULL, ?5, ?6, ?7)
    ON CONFLICT DO NOTHING RETURNING version_id;

-- name: known
SELECT version_id FROM message_versions WHERE digest = :digest AND message_id = :message_id;

-- name: of
SELECT message_id, version_id, digest, lesser, length, base_id, tokens, at, body
  FROM message_versions WHERE message_id IN (SELECT value FROM json_each(:ids))
   AND (:within IS NULL OR message_id IN (
       SELECT message_id FROM messages WHERE message_id IN (SELECT value FROM json_each(:ids))
          AND conversation_id IN (SELECT value FROM json_each(:within))))
 ORDER BY message_id, version_id;

-- name: digests
SELECT message_id, digest FROM message_versions WHERE message_id IN (SELECT value FROM json_each(:ids));

-- name: base_on
-- Prefixes of the current text become prefixes of a version, or the other way round.
UPDATE message_versions SET base_id = :to WHERE message_id = :message_id AND length IS NOT NULL AND base_id IS :from;

-- name: fill
UPDATE message_versions SET length = NULL, base_id = NULL, body = :body WHERE version_id = :version_id;

-- name: remove
DELETE FROM message_versions WHERE version_id = :version_id;

-- name: index
INSERT INTO version_index (rowid, body, extra) VALUES (?, ?, ?);

-- name: drop_index
DELETE FROM version_index WHERE rowid = ?;

-- name: set_words
-- Its own event key stays when the new one belongs to another row.
UPDATE messages SET content = :content, token_count = :tokens, identity_hash = :identity, large_content = :file_id,
       openclaw_sender_metadata = coalesce(:sender, openclaw_sender_metadata),
       stable_event_key = CASE WHEN :event_key IS NULL OR EXISTS (
           SELECT 1 FROM messages o WHERE o.conversation_id = messages.conversation_id AND o.stable_event_key = :event_key)
           THEN stable_event_key ELSE :event_key END
 WHERE message_id = :message_id AND conversation_id = :conversation_id;

-- name: set_extras
INSERT INTO message_extras (message_id, fingerprint, digest, claimed, format, skeleton, budget_tokens)
VALUES (:message_id, :fingerprint, :digest, 1, :format, :skeleton, :budget_tokens)
    ON CONFLICT (message_id) DO UPDATE SET
       fingerprint = excluded.fingerprint, digest = excluded.digest, format = excluded.format,
       skeleton = excluded.skeleton, budget_tokens = excluded.budget_tokens;

-- name: drop_parts
DELETE FROM message_parts WHERE message_id = :message_id;

-- name: count_tokens
UPDATE ingest_state SET context_tokens = context_tokens + :more, context_extra = NULL
 WHERE conversation_id = :conversation_id
   AND EXISTS (SELECT 1 FROM context_items WHERE conversation_id = :conversation_id AND message_id = :message_id);

-- name: count_source_tokens
-- Summaries count the tokens of the messages under them, once per path.
WITH RECURSIVE above (id) AS (
    SELECT summary_id FROM summary_messages WHERE message_id = :message_id
    UNION ALL
    SELECT p.summary_id FROM above JOIN summary_parents p ON p.parent_summary_id = above.id)
UPDATE summaries SET source_message_token_count = max(0, source_message_token_count
       + :more * (SELECT count(*) FROM above WHERE id = summaries.summary_id))
 WHERE summary_id IN (SELECT id FROM above);

-- name: messages
SELECT DISTINCT v.message_id FROM message_versions v JOIN messages m USING (message_id)
 WHERE v.message_id > :after ORDER BY v.message_id LIMIT :limit;

-- name: any
SELECT 1 FROM message_versions LIMIT 1;

-- name: having
SELECT v.message_id FROM (SELECT rowid AS r, bm25(version_index) AS b FROM version_index WHERE version_index MATCH :match) t
  JOIN message_versions v ON v.version_id = t.r JOIN messages m USING (message_id)
 WHERE (:conversations IS NULL OR m.conversation_id IN (SELECT value FROM json_each(:conversations)))
   AND (:since IS NULL OR unixepoch(m.created_at, 'subsec') * 1000 >= :since)
   AND (:before IS NULL OR unixepoch(m.created_at, 'subsec') * 1000 < :before)
 ORDER BY t.b, v.version_id DESC LIMIT :limit;

-- name: newest
SELECT DISTINCT v.message_id FROM message_versions v JOIN messages m USING (message_id)
 WHERE v.body IS NOT NULL AND (:below IS NULL OR v.message_id < :below)
   AND (:conversations IS NULL OR m.conversation_id IN (SELECT value FROM json_each(:conversations)))
   AND (:since IS NULL OR unixepoch(m.created_at, 'subsec') * 1000 >= :since)
   AND (:before IS NULL OR unixepoch(m.created_at, 'subsec') * 1000 < :before)
 ORDER BY v.message_id DESC LIMIT :limit;

-- name: gone
SELECT d.id FROM version_index_docsize d
 WHERE NOT EXISTS (SELECT 1 FROM message_versions v WHERE v.version_id = d.id AND v.body IS NOT NULL) LIMIT :limit;

-- name: lost
SELECT v.version_id, m.role, v.tokens, v.body FROM message_versions v JOIN messages m USING (message_id)
 WHERE v.version_id > :after AND v.body IS NOT NULL
   AND NOT EXISTS (SELECT 1 FROM version_index_docsize d WHERE d.id = v.version_id)
 ORDER BY v.version_id LIMIT :limit;

-- name: set_base
UPDATE message_versions SET base_id = ? WHERE version_id = ?;

-- name: sizes
SELECT id, sz FROM version_index_docsize WHERE id IN (SELECT value FROM json_each(:ids));

-- name: lacks_index
SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM version_index_docsize)
   AND EXISTS (SELECT 1 FROM message_versions WHERE body IS NOT NULL AND length(body) > 0);
