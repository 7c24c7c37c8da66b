-- OpenCode's database, which is only read.

-- name: sessions
SELECT
    json_object('id', s.id, 'projectID', s.project_id, 'parentID', s.parent_id, 'directory', s.directory,
        'title', s.title, 'revert', s.revert, 'time', json_object('created', s.time_created)),
    (SELECT count(*) FROM message m WHERE m.session_id = s.id) + (SELECT count(*) FROM part p WHERE p.session_id = s.id),
    max(s.time_updated,
        coalesce((SELECT max(m.time_updated) FROM message m WHERE m.session_id = s.id), 0),
        coalesce((SELECT max(p.time_updated) FROM part p WHERE p.session_id = s.id), 0))
FROM session s ORDER BY s.time_created, s.id;

-- name: messages
SELECT id, data FROM message WHERE session_id = :session_id ORDER BY time_created, id;

-- name: parts
SELECT message_id, id, data FROM part WHERE session_id = :session_id ORDER BY id;
