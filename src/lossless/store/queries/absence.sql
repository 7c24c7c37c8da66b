-- Proving that words are gone from search indexes.

-- name: indexes
SELECT name, sql FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL TABLE%USING fts5%' ORDER BY name;

-- name: term
SELECT 1 FROM terms WHERE term = :term;

-- name: ask
INSERT INTO asked (body) VALUES (?);

-- name: asked_terms
CREATE VIRTUAL TABLE asked_terms USING fts5vocab(asked, row);

-- name: all_terms
SELECT term FROM asked_terms;
