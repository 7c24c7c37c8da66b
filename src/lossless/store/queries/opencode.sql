-- OpenCode's database, which is only read.

-- name: sessions
-- The casts are for values of another kind than OpenCode writes: JSON has no place for bytes.
SELECT
    json_object('id', CAST(s.id AS TEXT), 'projectID', CAST(s.project_id AS TEXT), 'parentID', CAST(s.parent_id AS TEXT),
        'directory', CAST(s.directory AS TEXT), 'title', CAST(s.title AS TEXT), 'revert', CAST(s.revert AS TEXT),
        'time', json_object('created', CAST(s.time_created AS NUMERIC))),
    (SELECT count(*) FROM message m WHERE m.session_id = s.id) + (SELECT count(*) FROM part p WHERE p.session_id = s.id),
    CAST(max(coalesce(s.time_updated, 0),
        coalesce((SELECT max(m.time_updated) FROM message m WHERE m.session_id = s.id), 0),
        coalesce((SELECT max(p.time_updated) FROM part p WHERE p.session_id = s.id), 0)) AS INTEGER)
FROM session s WHERE s.id IS NOT NULL ORDER BY s.time_created, s.id;

-- name: messages
SELECT id, data FROM message WHERE session_id = :session_id ORDER BY time_created, id;

-- name: parts
SELECT message_id, id, data FROM part WHERE session_id = :session_id ORDER BY id;
