-- Search. Every search reads only rows in its scope: conversations, and a time range. Times are milliseconds since
-- 1970; texts are returned as bytes, so that no foreign row can make a search fail. Index rows from :base on are
-- further passages of a message.

-- name: quotes
-- Messages of users and assistants about a phrase in one conversation, except abandoned branches; newest first.
SELECT m.message_id, m.role, m.created_at, m.content FROM message_index i
  JOIN messages m ON m.message_id = i.rowid
 WHERE message_index MATCH :match AND m.conversation_id = :conversation_id AND m.role IN ('user', 'assistant')
   AND NOT EXISTS (SELECT 1 FROM hidden_items h
                    WHERE h.conversation_id = m.conversation_id AND h.item = +m.message_id AND h.cause IN ('branch', 'removed', 'transient'))
 ORDER BY i.rowid DESC LIMIT :limit;

-- name: mentions
-- Messages of users and assistants in one conversation, up to one, with a name in them; newest first.
SELECT DISTINCT m.message_id
  FROM (SELECT rowid AS r FROM message_index WHERE message_index MATCH :match ORDER BY rowid DESC LIMIT :among) f
  LEFT JOIN message_passages p ON f.r >= :base AND p.passage_id = f.r - :base
  JOIN messages m ON m.message_id = coalesce(p.message_id, f.r)
 WHERE m.conversation_id = :conversation_id AND m.message_id <= :through AND m.role IN ('user', 'assistant')
   AND instr(m.content, :name) > 0
 ORDER BY m.seq DESC LIMIT :limit;

-- name: users_words
-- Messages of users with a phrase near their beginning, newest first; among the newest rows that have it, of those
-- between the first and the last message of the conversations.
WITH ends AS (SELECT (SELECT message_id FROM messages WHERE conversation_id = w.value ORDER BY seq LIMIT 1) AS first,
                     (SELECT message_id FROM messages WHERE conversation_id = w.value ORDER BY seq DESC LIMIT 1) AS last
                FROM json_each(:conversations) w)
SELECT m.message_id
  FROM (SELECT rowid AS r FROM message_index
         WHERE message_index MATCH :match AND rowid >= coalesce((SELECT min(first) FROM ends), 0)
           AND rowid <= coalesce((SELECT max(last) FROM ends), :base)
         ORDER BY rowid DESC LIMIT 3000) f
  JOIN messages m ON m.message_id = f.r
 WHERE m.role = 'user' AND (:conversations IS NULL OR m.conversation_id IN (SELECT value FROM json_each(:conversations)))
   AND (:since IS NULL OR unixepoch(m.created_at, 'subsec') * 1000 >= :since)
   AND (:before IS NULL OR unixepoch(m.created_at, 'subsec') * 1000 < :before)
 ORDER BY m.message_id DESC LIMIT :limit;

-- name: sizes
-- The approximate number of index rows: messages and further passages.
SELECT coalesce((SELECT max(message_id) FROM messages), 0),
       coalesce((SELECT max(passage_id) FROM message_passages), 0),
       coalesce((SELECT max(index_id) FROM summary_extras), 0);

-- name: marked
-- Up to which message all are indexed.
SELECT value FROM archive_state WHERE name = 'indexed_through';

-- name: messages_in
-- The approximate number of messages of some conversations.
SELECT coalesce(sum((SELECT max(seq) FROM messages WHERE conversation_id = w.value)), 0) FROM json_each(:conversations) w;

-- name: summaries_in
SELECT count(*) FROM summaries WHERE conversation_id IN (SELECT value FROM json_each(:conversations));

-- name: count
-- How many index rows match, at most :limit.
SELECT count(*) FROM (SELECT 1 FROM message_index WHERE message_index MATCH :match LIMIT :limit);

-- name: count_in
SELECT count(*) FROM message_index f
  LEFT JOIN message_passages p ON f.rowid >= :base AND p.passage_id = f.rowid - :base
  JOIN messages m ON m.message_id = coalesce(p.message_id, f.rowid)
 WHERE message_index MATCH :match AND m.conversation_id IN (SELECT value FROM json_each(:conversations));

-- name: count_summaries
SELECT count(*) FROM (SELECT 1 FROM summary_index WHERE summary_index MATCH :match LIMIT :limit);

-- name: candidates
-- The best rows by bm25: message, the start of the passage (none for the first), conversation; only those that match
-- :needed, too, if given: bm25 costs the most. With :anywhere, of all conversations: cheaper where the scope is most of
-- the archive. The unary + keeps the index from being queried once per message of the scope.
SELECT coalesce(p.message_id, t.r), p.start, m.conversation_id
  FROM (SELECT f.rowid AS r, bm25(message_index) AS b FROM message_index f
         WHERE message_index MATCH :match
           AND (:needed IS NULL OR +f.rowid IN (SELECT rowid FROM message_index WHERE message_index MATCH :needed))
           AND (:anywhere OR +f.rowid IN (
               SELECT message_id FROM messages WHERE conversation_id IN (SELECT value FROM json_each(:conversations))
               UNION ALL
               SELECT :base + passage_id FROM message_passages JOIN messages USING (message_id)
                WHERE conversation_id IN (SELECT value FROM json_each(:conversations))))
           AND (:since IS NULL AND :before IS NULL OR EXISTS (
               SELECT 1 FROM messages WHERE message_id = CASE WHEN f.rowid < :base THEN f.rowid ELSE
                          (SELECT message_id FROM message_passages WHERE passage_id = f.rowid - :base) END
                  AND (:since IS NULL OR unixepoch(created_at, 'subsec') * 1000 >= :since)
                  AND (:before IS NULL OR unixepoch(created_at, 'subsec') * 1000 < :before)))
         ORDER BY b LIMIT :limit) t
  LEFT JOIN message_passages p ON t.r >= :base AND p.passage_id = t.r - :base
  LEFT JOIN messages m ON m.message_id = coalesce(p.message_id, t.r)
 ORDER BY t.b;

-- name: candidate_summaries
SELECT x.summary_id
  FROM (SELECT f.rowid AS r, bm25(summary_index) AS b FROM summary_index f
         WHERE summary_index MATCH :match
           AND (:needed IS NULL OR +f.rowid IN (SELECT rowid FROM summary_index WHERE summary_index MATCH :needed))
           AND (:everything OR +f.rowid IN (
               SELECT i.index_id FROM summaries s JOIN summary_extras i USING (summary_id)
                WHERE (:conversations IS NULL OR s.conversation_id IN (SELECT value FROM json_each(:conversations)))
                  AND (:since IS NULL OR unixepoch(coalesce(s.latest_at, s.created_at), 'subsec') * 1000 >= :since)
                  AND (:before IS NULL OR unixepoch(coalesce(s.latest_at, s.created_at), 'subsec') * 1000 < :before)))
         ORDER BY b LIMIT :limit) t
  JOIN summary_extras x ON x.index_id = t.r;

-- name: neighbours
SELECT m.message_id, m.conversation_id, m.seq, CAST(round(unixepoch(m.created_at, 'subsec') * 1000) AS INTEGER), CAST(m.token_count AS INTEGER),
       m.openclaw_sender_metadata, substr(CAST(m.content AS BLOB), 1, 160)
  FROM json_each(:places) w JOIN messages m ON m.conversation_id = w.value ->> 0 AND m.seq = w.value ->> 1
 WHERE (:since IS NULL OR unixepoch(m.created_at, 'subsec') * 1000 >= :since)
   AND (:before IS NULL OR unixepoch(m.created_at, 'subsec') * 1000 < :before);

-- name: echoes
-- The messages among these that only call our own recall tools, or have their results: a result has the id of a call
-- shortly before it, and the nearest one is meant. A call is known by its name, by the name that it hands to a host's
-- tool for calling others, or by the one command that it has a shell run.
SELECT m.message_id FROM json_each(:ids) w JOIN messages m ON m.message_id = w.value
 WHERE EXISTS (SELECT 1 FROM message_parts p WHERE p.message_id = m.message_id AND (p.part_type = 'tool' OR p.tool_call_id IS NOT NULL))
   AND NOT EXISTS (
       SELECT 1 FROM message_parts p
         LEFT JOIN message_parts c ON c.part_id = CASE WHEN p.tool_name <> '' AND p.tool_input IS NOT NULL THEN p.part_id ELSE (
              SELECT q.part_id FROM messages n JOIN message_parts q ON q.message_id = n.message_id
               WHERE n.conversation_id = m.conversation_id AND n.seq BETWEEN m.seq - 64 AND m.seq
                 AND q.tool_call_id = p.tool_call_id AND q.part_id <> p.part_id AND q.tool_name <> ''
               ORDER BY n.seq DESC LIMIT 1) END
        WHERE p.message_id = m.message_id AND (p.part_type = 'tool' OR p.tool_call_id IS NOT NULL)
          AND coalesce(p.tool_name, '') NOT GLOB '*lcm_[a-z]*' AND coalesce(c.tool_name, '') NOT GLOB '*lcm_[a-z]*'
          AND NOT EXISTS (
              SELECT 1 FROM json_each(CASE WHEN length(c.tool_input) > 4000 OR NOT instr(c.tool_input, 'lcm') OR NOT json_valid(c.tool_input) THEN '{}'
                                           WHEN json_type(c.tool_input) <> 'text' THEN c.tool_input
                                           WHEN json_valid(c.tool_input ->> '$') THEN c.tool_input ->> '$' ELSE '{}' END) a
               WHERE a.key IN ('id', 'name', 'tool') AND a.value GLOB '*lcm_[a-z]*' AND a.value NOT GLOB '*lcm_*[^a-z_]*'
                  OR a.key IN ('command', 'cmd') AND a.value GLOB 'lcm [a-z]*' AND a.value NOT GLOB '*[;&' || char(10) || ']*'));

-- name: disorder
-- A message above :after that is older than the one stored before it.
SELECT 1 FROM messages a
  JOIN messages b ON b.message_id = (SELECT max(message_id) FROM messages WHERE message_id < a.message_id)
 WHERE a.message_id > :after AND (a.created_at < b.created_at OR length(a.created_at) <> length(b.created_at))
   AND coalesce(unixepoch(a.created_at), 0) < coalesce(unixepoch(b.created_at), 0) LIMIT 1;

-- name: having
SELECT DISTINCT coalesce(p.message_id, f.rowid) FROM message_index f
  LEFT JOIN message_passages p ON f.rowid >= :base AND p.passage_id = f.rowid - :base
 WHERE message_index MATCH :match;

-- name: newest_ids
-- Matching messages, newest first, and how many there are. For few matches, or times that do not increase with ids.
SELECT message_id, count(*) OVER () FROM (
    SELECT m.message_id, coalesce(CAST(round(unixepoch(m.created_at, 'subsec') * 1000) AS INTEGER), 0) AS at
      FROM (SELECT DISTINCT coalesce(p.message_id, f.rowid) AS id FROM message_index f
              LEFT JOIN message_passages p ON f.rowid >= :base AND p.passage_id = f.rowid - :base
             WHERE message_index MATCH :match) t
      JOIN messages m ON m.message_id = t.id
     WHERE (:conversations IS NULL OR m.conversation_id IN (SELECT value FROM json_each(:conversations))))
 WHERE (:since IS NULL OR at >= :since) AND (:before IS NULL OR at < :before)
   AND (:from_at IS NULL OR at < :from_at OR (at = :from_at AND message_id < :from_id))
 ORDER BY at DESC, message_id DESC LIMIT :limit;

-- name: newest_heads
-- The same for many matches, where times increase with ids: the first passages of messages.
SELECT m.message_id, coalesce(CAST(round(unixepoch(m.created_at, 'subsec') * 1000) AS INTEGER), 0) FROM message_index f JOIN messages m ON m.message_id = f.rowid
 WHERE message_index MATCH :match AND f.rowid < :below
   AND (:conversations IS NULL OR m.conversation_id IN (SELECT value FROM json_each(:conversations)))
   AND (:since IS NULL OR unixepoch(m.created_at, 'subsec') * 1000 >= :since)
   AND (:before IS NULL OR unixepoch(m.created_at, 'subsec') * 1000 < :before)
   AND (:from_at IS NULL OR round(unixepoch(m.created_at, 'subsec') * 1000) <= :from_at)
 ORDER BY f.rowid DESC LIMIT :limit;

-- name: newest_passages
SELECT m.message_id, coalesce(CAST(round(unixepoch(m.created_at, 'subsec') * 1000) AS INTEGER), 0) FROM message_index f
  JOIN message_passages p ON p.passage_id = f.rowid - :base
  JOIN messages m ON m.message_id = p.message_id
 WHERE message_index MATCH :match AND f.rowid >= :base AND m.message_id < :below
   AND (:conversations IS NULL OR m.conversation_id IN (SELECT value FROM json_each(:conversations)))
   AND (:since IS NULL OR unixepoch(m.created_at, 'subsec') * 1000 >= :since)
   AND (:before IS NULL OR unixepoch(m.created_at, 'subsec') * 1000 < :before)
   AND (:from_at IS NULL OR round(unixepoch(m.created_at, 'subsec') * 1000) <= :from_at)
 ORDER BY f.rowid DESC LIMIT :limit;

-- name: newest_summaries
SELECT summary_id, count(*) OVER () FROM (
    SELECT s.summary_id,
           coalesce(CAST(round(unixepoch(coalesce(s.latest_at, s.created_at), 'subsec') * 1000) AS INTEGER), 0) AS at
      FROM summary_index f JOIN summary_extras x ON x.index_id = f.rowid JOIN summaries s USING (summary_id)
     WHERE summary_index MATCH :match
       AND (:conversations IS NULL OR s.conversation_id IN (SELECT value FROM json_each(:conversations))))
 WHERE (:since IS NULL OR at >= :since) AND (:before IS NULL OR at < :before)
   AND (:from_at IS NULL OR at < :from_at OR (at = :from_at AND summary_id < :from_id))
 ORDER BY at DESC, summary_id DESC LIMIT :limit;

-- name: unread
-- Messages of the scope that are not indexed, last stored first.
SELECT m.message_id FROM messages m LEFT JOIN message_extras x USING (message_id)
 WHERE m.message_id > coalesce((SELECT value FROM archive_state WHERE name = 'indexed_through'), 0) AND x.digest IS NULL
   AND (:conversations IS NULL OR m.conversation_id IN (SELECT value FROM json_each(:conversations)))
   AND (:since IS NULL OR unixepoch(m.created_at, 'subsec') * 1000 >= :since)
   AND (:before IS NULL OR unixepoch(m.created_at, 'subsec') * 1000 < :before)
 ORDER BY m.message_id DESC LIMIT :limit;

-- name: unread_summaries
SELECT s.summary_id FROM summaries s LEFT JOIN summary_extras x USING (summary_id)
 WHERE x.summary_id IS NULL
   AND (:conversations IS NULL OR s.conversation_id IN (SELECT value FROM json_each(:conversations)))
   AND (:since IS NULL OR unixepoch(coalesce(s.latest_at, s.created_at), 'subsec') * 1000 >= :since)
   AND (:before IS NULL OR unixepoch(coalesce(s.latest_at, s.created_at), 'subsec') * 1000 < :before)
 ORDER BY s.created_at DESC LIMIT :limit;

-- name: all_ids
-- Every message of the scope, unordered, so that an index can answer without reading texts.
SELECT message_id FROM messages
 WHERE (:conversations IS NULL OR conversation_id IN (SELECT value FROM json_each(:conversations)))
   AND (:below IS NULL OR +message_id < :below);

-- name: all_by_time
SELECT message_id FROM (
    SELECT message_id, coalesce(CAST(round(unixepoch(created_at, 'subsec') * 1000) AS INTEGER), 0) AS at FROM messages
     WHERE (:conversations IS NULL OR conversation_id IN (SELECT value FROM json_each(:conversations))))
 WHERE (:since IS NULL OR at >= :since) AND (:before IS NULL OR at < :before)
   AND (:from_at IS NULL OR at < :from_at OR (at = :from_at AND message_id < :from_id))
 ORDER BY at DESC, message_id DESC;

-- name: all_summaries
SELECT summary_id FROM (
    SELECT summary_id, coalesce(CAST(round(unixepoch(coalesce(latest_at, created_at), 'subsec') * 1000) AS INTEGER), 0) AS at
      FROM summaries
     WHERE (:conversations IS NULL OR conversation_id IN (SELECT value FROM json_each(:conversations))))
 WHERE (:since IS NULL OR at >= :since) AND (:before IS NULL OR at < :before)
   AND (:from_at IS NULL OR at < :from_at OR (at = :from_at AND summary_id < :from_id))
 ORDER BY at DESC, summary_id DESC;

-- name: said_between
-- What people and models said in a stretch of time and did not take back, the newest first. Days as text cut down what
-- is looked at more closely; rows are written in several forms, all of which begin with the day.
SELECT * FROM (SELECT message_id, conversation_id, seq, at FROM (
    SELECT m.message_id, m.conversation_id, m.seq, CAST(round(unixepoch(m.created_at, 'subsec') * 1000) AS INTEGER) AS at
      FROM json_each(coalesce(:conversations, (SELECT json_group_array(conversation_id) FROM conversations))) c
      JOIN messages m ON m.conversation_id = c.value
     WHERE m.role IN ('user', 'assistant') AND m.created_at >= date(:since / 1000 - 86400, 'unixepoch')
       AND m.created_at < date(:before / 1000 + 172800, 'unixepoch')
       AND NOT EXISTS (SELECT 1 FROM hidden_items h WHERE h.conversation_id = m.conversation_id AND h.item = +m.message_id))
 WHERE at >= :since AND at < :before
 ORDER BY at DESC, message_id DESC LIMIT :limit) ORDER BY at, message_id;

-- name: texts
SELECT m.message_id, m.conversation_id, m.seq, m.role, coalesce(CAST(round(unixepoch(m.created_at, 'subsec') * 1000) AS INTEGER), 0),
       CAST(m.token_count AS INTEGER), CAST(m.content AS BLOB), CAST(x.digest AS BLOB), m.openclaw_sender_metadata
  FROM json_each(:ids) w JOIN messages m ON m.message_id = w.value LEFT JOIN message_extras x USING (message_id)
 WHERE (:within IS NULL OR m.conversation_id IN (SELECT value FROM json_each(:within)));

-- name: contents
SELECT m.message_id, CAST(m.content AS BLOB) FROM json_each(:ids) w JOIN messages m ON m.message_id = w.value
 WHERE (:within IS NULL OR m.conversation_id IN (SELECT value FROM json_each(:within)));

-- name: calls
-- The tool inputs of messages, and what distinguishes a call from a result.
SELECT message_id, CAST(tool_input AS BLOB), metadata FROM message_parts
 WHERE message_id IN (SELECT value FROM json_each(:ids)) AND tool_input IS NOT NULL AND +part_type = 'tool'
 ORDER BY message_id, ordinal;

-- name: holding
-- Messages whose text has these characters.
SELECT m.message_id FROM json_each(:ids) w JOIN messages m ON m.message_id = w.value
 WHERE instr(CASE WHEN :ignore_case THEN lower(m.content) ELSE m.content END, :text)
UNION
SELECT message_id FROM message_parts
 WHERE message_id IN (SELECT value FROM json_each(:ids)) AND tool_input IS NOT NULL AND +part_type = 'tool'
   AND (instr(CASE WHEN :ignore_case THEN lower(tool_input) ELSE tool_input END, :piece) OR instr(tool_input, '\u'));

-- name: summary_texts
SELECT s.summary_id, s.conversation_id, s.depth, coalesce(CAST(round(unixepoch(coalesce(s.latest_at, s.created_at), 'subsec') * 1000) AS INTEGER), 0),
       CAST(s.token_count AS INTEGER), CAST(s.content AS BLOB), CAST(x.digest AS BLOB)
  FROM json_each(:ids) w CROSS JOIN summaries s ON s.summary_id = w.value LEFT JOIN summary_extras x USING (summary_id)
 WHERE (:within IS NULL OR s.conversation_id IN (SELECT value FROM json_each(:within)))
 ORDER BY w.key;
