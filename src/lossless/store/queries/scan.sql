-- The order in which a scan reads texts: newest first, those without a time last. Conversations from :first to :last.

-- name: messages
SELECT at, message_id FROM (
    SELECT coalesce(strftime('%Y-%m-%dT%H:%M:%fZ', created_at), '') AS at, message_id FROM messages
     WHERE conversation_id BETWEEN :first AND :last)
 WHERE :from_at IS NULL OR (at, message_id) < (:from_at, :from_id)
 ORDER BY at DESC, message_id DESC;

-- name: summaries
SELECT at, summary_id FROM (
    SELECT coalesce(strftime('%Y-%m-%dT%H:%M:%fZ', latest_at), strftime('%Y-%m-%dT%H:%M:%fZ', created_at), '') AS at, summary_id
      FROM summaries WHERE conversation_id BETWEEN :first AND :last)
 WHERE :from_at IS NULL OR (at, summary_id) < (:from_at, :from_id)
 ORDER BY at DESC, summary_id DESC;
