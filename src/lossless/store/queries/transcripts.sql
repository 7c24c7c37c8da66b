-- Transcripts: how far each was read, the decisions about it, and its records that are not messages.

-- name: checkpoint
SELECT b.session_file_path, b.last_seen_size, b.last_seen_mtime_ms, b.last_processed_offset, b.session_header_id,
       b.last_processed_entry_id, b.last_processed_entry_hash, b.fork_bounded, s.lane,
       iif(s.read_to = b.last_processed_offset, s.lines, NULL), iif(s.read_to = b.last_processed_offset, s.front, NULL),
       iif(s.read_to = b.last_processed_offset, s.tail, NULL), s.cursor, s.kind
  FROM conversation_bootstrap_state b LEFT JOIN transcript_state s USING (conversation_id)
 WHERE b.conversation_id = :conversation_id;

-- name: advance
-- For the same file no indexed column changes, which keeps turns cheap.
UPDATE conversation_bootstrap_state
   SET last_seen_size = :size, last_seen_mtime_ms = :mtime_ms, last_processed_offset = :offset,
       last_processed_entry_id = :entry_id, last_processed_entry_hash = :entry_hash
 WHERE conversation_id = :conversation_id AND session_file_path = :path AND session_header_id IS :header_id;

-- name: set_checkpoint
INSERT INTO conversation_bootstrap_state
       (conversation_id, session_file_path, last_seen_size, last_seen_mtime_ms, last_processed_offset,
        session_header_id, last_processed_entry_id, last_processed_entry_hash, updated_at)
VALUES (:conversation_id, :path, :size, :mtime_ms, :offset, :header_id, :entry_id, :entry_hash, datetime(:now))
    ON CONFLICT (conversation_id) DO UPDATE SET
       session_file_path = excluded.session_file_path, last_seen_size = excluded.last_seen_size,
       last_seen_mtime_ms = excluded.last_seen_mtime_ms, last_processed_offset = excluded.last_processed_offset,
       session_header_id = excluded.session_header_id, last_processed_entry_id = excluded.last_processed_entry_id,
       last_processed_entry_hash = excluded.last_processed_entry_hash, updated_at = excluded.updated_at;

-- name: set_state
INSERT INTO transcript_state (conversation_id, lane, read_to, lines, front, tail, cursor, kind)
VALUES (:conversation_id, :lane, :offset, :lines, :front, :tail, :cursor, :kind)
    ON CONFLICT (conversation_id) DO UPDATE SET
       lane = excluded.lane, read_to = excluded.read_to, lines = excluded.lines, front = excluded.front,
       tail = excluded.tail, kind = excluded.kind, cursor = coalesce(excluded.cursor, cursor);

-- name: set_fork
UPDATE conversation_bootstrap_state SET fork_bounded = 1, fork_source_message_count = :count
 WHERE conversation_id = :conversation_id;

-- name: set_soft_reset
UPDATE conversation_bootstrap_state SET soft_reset_pruned_at = datetime(:now) WHERE conversation_id = :conversation_id;

-- name: tracked
SELECT b.conversation_id, b.session_file_path, b.last_seen_size
  FROM conversation_bootstrap_state b JOIN conversations c USING (conversation_id)
 WHERE c.active = 1 AND b.session_file_path <> '' ORDER BY b.conversation_id;

-- name: add_epoch
INSERT INTO transcript_epochs (conversation_id, path, header_id, size, mtime_ms, decision, reason, messages, at)
VALUES (:conversation_id, :path, :header_id, :size, :mtime_ms, :decision, :reason, :messages, datetime(:now));

-- name: last_epoch
SELECT epoch_id, conversation_id, path, header_id, size, mtime_ms, decision, reason, messages, at FROM transcript_epochs
 WHERE conversation_id = :conversation_id AND path = :path ORDER BY epoch_id DESC LIMIT 1;

-- name: epochs
SELECT epoch_id, conversation_id, path, header_id, size, mtime_ms, decision, reason, messages, at FROM transcript_epochs
 WHERE :conversation_id IS NULL OR conversation_id = :conversation_id ORDER BY epoch_id;

-- name: decided
-- Transcripts whose newest decision is this one: held until the user decides, or refused.
SELECT e.epoch_id, e.conversation_id, e.path, e.header_id, e.size, e.mtime_ms, e.decision, e.reason, e.messages, e.at
  FROM transcript_epochs e
 WHERE e.decision = :decision
   AND NOT EXISTS (SELECT 1 FROM transcript_epochs later
                    WHERE later.conversation_id = e.conversation_id AND later.path = e.path
                      AND later.epoch_id > e.epoch_id)
 ORDER BY e.epoch_id;

-- name: keep_record
INSERT OR IGNORE INTO transcript_records (conversation_id, record_key, after_seq, kind, record)
VALUES (?1, ?2, coalesce((SELECT max(seq) FROM messages WHERE conversation_id = ?1), 0), ?3, ?4);

-- name: records
SELECT after_seq, kind, record FROM transcript_records WHERE conversation_id = :conversation_id ORDER BY after_seq, rowid;

-- name: seen
SELECT conversation_id, last_seen_size, last_seen_mtime_ms FROM conversation_bootstrap_state WHERE session_file_path = :path;
