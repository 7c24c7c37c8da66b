-- Evidence in prompts, and receipts of how prompts were assembled.

-- name: fold
-- The newest fold of a conversation; 0 when nothing was folded.
SELECT coalesce((SELECT log_id FROM context_log WHERE conversation_id = :conversation_id AND action = 'fold'
                  ORDER BY log_id DESC LIMIT 1), 0);

-- name: evidence
SELECT evidence_id, message_id, after_id, asked, quotes, tokens, digest FROM prompt_evidence
 WHERE conversation_id = :conversation_id AND fold = :fold ORDER BY evidence_id;

-- name: add_evidence
INSERT INTO prompt_evidence (conversation_id, message_id, after_id, asked, fold, quotes, tokens, digest, at)
VALUES (:conversation_id, :message_id, :after_id, :asked, :fold, :quotes, :tokens, :digest, :at);

-- name: drop_older_evidence
DELETE FROM prompt_evidence WHERE conversation_id = :conversation_id
   AND (fold <> :fold OR message_id IS NULL OR message_id = :message_id);

-- name: bind_evidence
UPDATE prompt_evidence SET message_id = :message_id, asked = NULL WHERE evidence_id = :evidence_id;

-- name: user_after
-- The first user message after another message.
SELECT min(message_id) FROM messages WHERE conversation_id = :conversation_id AND message_id > :after_id AND role = 'user';

-- name: empty_evidence
-- It leaves the prompt, and is not chosen again.
UPDATE prompt_evidence SET quotes = '[]', tokens = 0, digest = NULL
 WHERE evidence_id IN (SELECT value FROM json_each(:ids));

-- name: hidden
-- The messages among these that were removed from the conversation.
SELECT h.item FROM json_each(:ids) j JOIN messages m ON m.message_id = j.value
  JOIN hidden_items h ON h.conversation_id = m.conversation_id AND h.item = +m.message_id;

-- name: add_receipt
INSERT INTO prompt_receipts (conversation_id, at, tokens, capacity, detail)
VALUES (?, ?, ?, ?, ?);

-- name: trim_receipts
DELETE FROM prompt_receipts WHERE conversation_id = ?1
   AND (at < ?2 OR receipt_id <= (SELECT receipt_id FROM prompt_receipts WHERE conversation_id = ?1
                                   ORDER BY receipt_id DESC LIMIT 1 OFFSET ?3));

-- name: receipts
SELECT receipt_id, at, tokens, capacity, detail FROM prompt_receipts
 WHERE conversation_id = :conversation_id ORDER BY receipt_id DESC LIMIT :limit;
