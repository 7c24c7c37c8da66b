-- Totals over a search index: its words with their places, its counts, its settings.

-- name: is_stored
SELECT 1 FROM main.sqlite_master WHERE name = :table;

-- name: message_index_words
CREATE VIRTUAL TABLE temp.words USING fts5vocab (main, message_index, instance);

-- name: summary_index_words
CREATE VIRTUAL TABLE temp.words USING fts5vocab (main, summary_index, instance);

-- name: version_index_words
CREATE VIRTUAL TABLE temp.words USING fts5vocab (main, version_index, instance);

-- name: drop_words
DROP TABLE IF EXISTS temp.words;

-- name: sums
-- For each word a sum over its positions that distinguishes any damage from the original.
SELECT term, sum(((doc % 1000003) * 31 + "offset" * 7 + (col = 'extra') * 3 + 1) * ((doc + "offset") % 8191 + 1)) FROM temp.words
 GROUP BY term;

-- name: message_index_counts
SELECT CAST(block AS BLOB) FROM message_index_data WHERE id = 1;

-- name: summary_index_counts
SELECT CAST(block AS BLOB) FROM summary_index_data WHERE id = 1;

-- name: version_index_counts
SELECT CAST(block AS BLOB) FROM version_index_data WHERE id = 1;

-- name: message_index_settings
SELECT k, v FROM message_index_config ORDER BY k;

-- name: summary_index_settings
SELECT k, v FROM summary_index_config ORDER BY k;

-- name: version_index_settings
SELECT k, v FROM version_index_config ORDER BY k;

-- name: scratch_row
INSERT INTO message_index (rowid, body, extra) VALUES (?, ?, ?);

-- name: scratch_sizes
SELECT id, sz FROM message_index_docsize;
