-- Whether our full-text tables find their rows.

-- name: message_index_integrity
PRAGMA integrity_check(message_index);

-- name: summary_index_integrity
PRAGMA integrity_check(summary_index);

-- name: message_index_has
SELECT 1 FROM message_index WHERE message_index MATCH :match AND rowid = :rowid;

-- name: version_index_integrity
PRAGMA integrity_check(version_index);

-- name: version_index_has
SELECT 1 FROM version_index WHERE version_index MATCH :match AND rowid = :rowid;

-- name: summary_index_has
SELECT 1 FROM summary_index WHERE summary_index MATCH :match AND rowid = :rowid;

-- name: message_index_span
SELECT min(message_id), max(message_id) FROM message_extras;

-- name: version_index_span
-- The text of a version is compressed: it is checked when an archive is verified.
SELECT NULL, NULL;

-- name: summary_index_span
SELECT min(index_id), max(index_id) FROM summary_extras;

-- name: message_index_sample
-- The next message that is in the index.
SELECT m.message_id, m.content, x.digest FROM message_extras x JOIN messages m USING (message_id)
  JOIN message_index_docsize d ON d.id = x.message_id
 WHERE x.message_id >= :at ORDER BY x.message_id LIMIT 1;

-- name: summary_index_sample
SELECT x.index_id, s.content, x.digest FROM summary_extras x JOIN summaries s USING (summary_id)
  JOIN summary_index_docsize d ON d.id = x.index_id
 WHERE x.index_id >= :at ORDER BY x.index_id LIMIT 1;
