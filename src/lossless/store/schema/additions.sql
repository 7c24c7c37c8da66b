-- The tables that lossless adds. All of them are additive: dropping them leaves a plain lossless-claw database.

-- Further columns of a message: its alignment with a host's window, its index state, and the part of the original that
-- content and parts do not hold.
CREATE TABLE IF NOT EXISTS message_extras (
    message_id  INTEGER PRIMARY KEY REFERENCES messages (message_id) ON DELETE CASCADE,
    fingerprint BLOB NOT NULL,
    digest      BLOB,              -- 8 bytes of the indexed text, 8 of all that is rebuilt, 8 of versions; NULL until it is indexed
    claimed     INTEGER NOT NULL,  -- 1 once a producer without entry ids has brought it
    preamble    INTEGER NOT NULL DEFAULT 0,  -- 1 for a system prompt at the head of a window
    format      TEXT,              -- the codec it came through; NULL for plain
    skeleton    BLOB,              -- the original with references to content and parts, deflated; NULL when those say it all
    budget_tokens INTEGER          -- the estimate for budgets; NULL until it is worked out
);

-- Where a conversation belongs: the host's working folder, when the host tells it.
CREATE TABLE IF NOT EXISTS conversation_extras (
    conversation_id INTEGER PRIMARY KEY REFERENCES conversations (conversation_id) ON DELETE CASCADE,
    project         TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS conversation_extras_project_idx ON conversation_extras (project);

-- Digests of the rows of other tables that hold words or say what belongs where, and of the bytes of payloads.
CREATE TABLE IF NOT EXISTS row_digests (
    name    TEXT NOT NULL,  -- of the table
    row_key TEXT NOT NULL,  -- JSON: the values of its key
    digest  BLOB NOT NULL,
    PRIMARY KEY (name, row_key)
) WITHOUT ROWID;

-- Passages of long messages beyond the first; the first has the message's own id in the index.
CREATE TABLE IF NOT EXISTS message_passages (
    passage_id INTEGER PRIMARY KEY AUTOINCREMENT,
    message_id INTEGER NOT NULL REFERENCES messages (message_id) ON DELETE CASCADE,
    start      INTEGER NOT NULL,
    length     INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS message_passages_message_idx ON message_passages (message_id);

-- What messages mean, where an embedder is configured: derived from their words.
CREATE TABLE IF NOT EXISTS message_vectors (
    message_id INTEGER PRIMARY KEY REFERENCES messages (message_id) ON DELETE CASCADE,
    digest     BLOB NOT NULL,  -- of the indexed text that it was made of, 8 bytes
    vector     BLOB NOT NULL   -- one signed byte for each dimension
);

-- What a message said before, or as a host shortened it; the row in `messages` has its current words.
CREATE TABLE IF NOT EXISTS message_versions (
    version_id INTEGER PRIMARY KEY AUTOINCREMENT,
    message_id INTEGER NOT NULL REFERENCES messages (message_id) ON DELETE CASCADE,
    digest     BLOB NOT NULL,     -- of its words, 16 bytes
    lesser     INTEGER NOT NULL,  -- 0: it was the row's current words; 1: a host's reduction, which never was
    length     INTEGER,           -- of a wording that is the beginning of another one, in characters
    base_id    INTEGER,           -- that other one; NULL for the row's current words
    tokens     INTEGER NOT NULL,
    at         INTEGER NOT NULL,  -- when it was kept, in seconds since 1970
    body       BLOB,              -- deflated JSON of all of it; NULL for a beginning
    UNIQUE (digest, message_id)
);
CREATE INDEX IF NOT EXISTS message_versions_message_idx ON message_versions (message_id);

-- Summaries of messages that were revised afterwards.
CREATE TABLE IF NOT EXISTS stale_summaries (
    summary_id TEXT NOT NULL REFERENCES summaries (summary_id) ON DELETE CASCADE,
    message_id INTEGER NOT NULL REFERENCES messages (message_id) ON DELETE CASCADE,
    at         TEXT NOT NULL,
    PRIMARY KEY (summary_id, message_id)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS summary_extras (
    index_id   INTEGER PRIMARY KEY,
    summary_id TEXT NOT NULL UNIQUE REFERENCES summaries (summary_id) ON DELETE CASCADE,
    digest     BLOB NOT NULL,
    budget_tokens INTEGER  -- the estimate for budgets; NULL until it is worked out
);

CREATE VIRTUAL TABLE IF NOT EXISTS message_index USING fts5 (
    body, extra, content='', contentless_delete=1, tokenize='porter unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE IF NOT EXISTS summary_index USING fts5 (
    body, extra, content='', contentless_delete=1, tokenize='porter unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE IF NOT EXISTS version_index USING fts5 (
    body, extra, content='', contentless_delete=1, tokenize='porter unicode61 remove_diacritics 2');

-- Every change of a context other than an append: ids and sizes, never text.
CREATE TABLE IF NOT EXISTS context_log (
    log_id          INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation_id INTEGER NOT NULL REFERENCES conversations (conversation_id) ON DELETE CASCADE,
    at              TEXT NOT NULL,
    actor           TEXT NOT NULL,
    action          TEXT NOT NULL,
    cause           TEXT,
    removed         TEXT NOT NULL DEFAULT '[]',  -- JSON: message ids (numbers) and summary ids (strings), in order
    added           TEXT NOT NULL DEFAULT '[]',
    ordinal         INTEGER,                     -- where the first removed item stood
    tokens_before   INTEGER NOT NULL,
    tokens_after    INTEGER NOT NULL,
    detail          TEXT                         -- JSON, for undo
);
CREATE INDEX IF NOT EXISTS context_log_conv_idx ON context_log (conversation_id, log_id);

-- Items that left a context without a summary, and why. An item is a message id or a summary id.
CREATE TABLE IF NOT EXISTS hidden_items (
    conversation_id INTEGER NOT NULL REFERENCES conversations (conversation_id) ON DELETE CASCADE,
    item            NOT NULL,
    cause           TEXT NOT NULL,
    at              TEXT NOT NULL,
    PRIMARY KEY (conversation_id, item)
) WITHOUT ROWID;

-- Batches that a host marked with a key: the same key twice is a no-op.
CREATE TABLE IF NOT EXISTS turn_keys (
    conversation_id INTEGER NOT NULL REFERENCES conversations (conversation_id) ON DELETE CASCADE,
    turn_key        TEXT NOT NULL,
    message_count   INTEGER NOT NULL,
    at              TEXT NOT NULL,
    digest          INTEGER NOT NULL DEFAULT 0,  -- of what was said; 0 when it is not known
    PRIMARY KEY (conversation_id, turn_key)
) WITHOUT ROWID;

-- The last window that a host sent, to find what the next one adds.
CREATE TABLE IF NOT EXISTS last_windows (
    conversation_id  INTEGER PRIMARY KEY REFERENCES conversations (conversation_id) ON DELETE CASCADE,
    first_message_id INTEGER,
    last_message_id  INTEGER,
    length           INTEGER NOT NULL,
    chain            BLOB NOT NULL,  -- eight bytes for each of its messages
    at               TEXT NOT NULL,
    began            INTEGER         -- seq of the newest message when the first window was noted; NULL when nobody knows
);
CREATE INDEX IF NOT EXISTS last_windows_newest_idx ON last_windows (last_message_id);

-- Counters of what arrived, and the state of a conversation that refuses input.
CREATE TABLE IF NOT EXISTS ingest_state (
    conversation_id INTEGER PRIMARY KEY REFERENCES conversations (conversation_id) ON DELETE CASCADE,
    seen            INTEGER NOT NULL DEFAULT 0,
    stored          INTEGER NOT NULL DEFAULT 0,
    replayed        INTEGER NOT NULL DEFAULT 0,
    skipped         INTEGER NOT NULL DEFAULT 0,
    ambiguous       INTEGER NOT NULL DEFAULT 0,
    producers       INTEGER NOT NULL DEFAULT 0,  -- 1: without entry ids, 2: with
    context_tokens  INTEGER,                     -- of all context items; NULL when it must be added up again
    context_seq     INTEGER,                     -- the newest message that `context_tokens` counts
    context_extra   INTEGER,                     -- by how much the estimates for budgets are above `context_tokens`
    last_stored_at  TEXT,
    blocked_at      TEXT,
    blocked_reason  TEXT,
    revised         INTEGER NOT NULL DEFAULT 0,
    likely          INTEGER NOT NULL DEFAULT 0
);

-- One summariser per conversation across processes.
CREATE TABLE IF NOT EXISTS leases (
    name       TEXT PRIMARY KEY,
    owner      TEXT NOT NULL,
    expires_at TEXT NOT NULL
) WITHOUT ROWID;

-- Model calls: reserved before, settled after, so that spend is known across restarts.
CREATE TABLE IF NOT EXISTS spend_ledger (
    spend_id        INTEGER PRIMARY KEY AUTOINCREMENT,
    scope           TEXT NOT NULL,
    kind            TEXT NOT NULL CHECK (kind IN ('call', 'reset', 'backoff')),
    at              TEXT NOT NULL,
    until           TEXT,
    window_at       TEXT,
    result          TEXT NOT NULL DEFAULT 'reserved',
    conversation_id INTEGER,
    purpose         TEXT,
    model           TEXT,
    input_tokens    INTEGER,
    output_tokens   INTEGER,
    cost            TEXT
);
CREATE INDEX IF NOT EXISTS spend_ledger_scope_idx ON spend_ledger (scope, at);

CREATE TABLE IF NOT EXISTS breakers (
    breaker_key TEXT PRIMARY KEY,
    failures    INTEGER NOT NULL,
    open_until  TEXT,
    updated_at  TEXT NOT NULL
) WITHOUT ROWID;

-- Read permissions of sub-agents.
CREATE TABLE IF NOT EXISTS expansion_grants (
    grant_id         TEXT PRIMARY KEY,
    issuer           TEXT NOT NULL,
    holder           TEXT,
    conversation_ids TEXT NOT NULL,              -- JSON
    summary_ids      TEXT NOT NULL DEFAULT '[]', -- JSON; empty means all
    token_cap        INTEGER NOT NULL,
    tokens_used      INTEGER NOT NULL DEFAULT 0,
    max_depth        INTEGER NOT NULL,
    created_at       TEXT NOT NULL,
    expires_at       TEXT NOT NULL,
    revoked_at       TEXT
) WITHOUT ROWID;

-- Text or messages that are never summarised.
CREATE TABLE IF NOT EXISTS pins (
    pin_id          INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation_id INTEGER NOT NULL REFERENCES conversations (conversation_id) ON DELETE CASCADE,
    message_id      INTEGER REFERENCES messages (message_id) ON DELETE CASCADE,
    content         TEXT,
    at              TEXT NOT NULL,
    CHECK ((message_id IS NULL) <> (content IS NULL))
);

-- The ratio of a model's tokenizer to our estimate, learned from reported usage.
CREATE TABLE IF NOT EXISTS token_factors (
    model        TEXT PRIMARY KEY,
    ratio        REAL NOT NULL,
    spread       REAL NOT NULL,
    observations INTEGER NOT NULL,
    updated_at   TEXT NOT NULL
) WITHOUT ROWID;

-- The conversation's share of the window, and what it was computed from: the same in every process.
CREATE TABLE IF NOT EXISTS history_budgets (
    conversation_id INTEGER PRIMARY KEY REFERENCES conversations (conversation_id) ON DELETE CASCADE,
    window          INTEGER NOT NULL,
    beside          INTEGER NOT NULL,
    frame           INTEGER NOT NULL,
    reply           INTEGER NOT NULL,
    factor          REAL NOT NULL,
    counted_frame   INTEGER NOT NULL,  -- the newest; `frame` follows it at the next fold
    counted_at      INTEGER,           -- tokens of the conversation in the prompt that it was seen in
    longest_reply   INTEGER NOT NULL,
    updated_at      TEXT NOT NULL
);

-- Chunks that could not be shrunk or have no words, so that they are not tried again.
CREATE TABLE IF NOT EXISTS stubborn_chunks (
    conversation_id INTEGER NOT NULL REFERENCES conversations (conversation_id) ON DELETE CASCADE,
    chunk           TEXT NOT NULL,
    kind            TEXT NOT NULL CHECK (kind IN ('unshrinkable', 'blank', 'blank summary')),
    at              TEXT NOT NULL,
    PRIMARY KEY (conversation_id, chunk)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS archive_state (
    name  TEXT PRIMARY KEY,
    value
) WITHOUT ROWID;

-- How far a transcript was read, in addition to upstream's `conversation_bootstrap_state`.
CREATE TABLE IF NOT EXISTS transcript_state (
    conversation_id INTEGER PRIMARY KEY REFERENCES conversations (conversation_id) ON DELETE CASCADE,
    lane            TEXT,              -- the side line that was read; NULL for the main one
    read_to         INTEGER NOT NULL,  -- the offset that the rest of this row belongs to
    lines           INTEGER NOT NULL,  -- lines up to there
    front           TEXT,              -- the newest records up to there: ids, parents, ties
    tail            BLOB,              -- digest of the last bytes up to there
    cursor          TEXT,              -- a host's own mark of how far it was read
    kind            TEXT               -- of the transcript: openclaw, claude-code, …
);

-- The decisions about each transcript of a conversation, newest last.
CREATE TABLE IF NOT EXISTS transcript_epochs (
    epoch_id        INTEGER PRIMARY KEY,
    conversation_id INTEGER NOT NULL REFERENCES conversations (conversation_id) ON DELETE CASCADE,
    path            TEXT NOT NULL,
    header_id       TEXT,
    size            INTEGER NOT NULL,
    mtime_ms        INTEGER NOT NULL,
    decision        TEXT NOT NULL,     -- first, continued, fresh, small, held, accepted, refused
    reason          TEXT NOT NULL,
    messages        INTEGER NOT NULL,
    at              TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS transcript_epochs_conv_idx ON transcript_epochs (conversation_id, epoch_id);

-- Records of a transcript that are not messages, unchanged (deflated JSON).
CREATE TABLE IF NOT EXISTS transcript_records (
    conversation_id INTEGER NOT NULL REFERENCES conversations (conversation_id) ON DELETE CASCADE,
    record_key      TEXT NOT NULL,     -- its id, else a digest
    after_seq       INTEGER NOT NULL,  -- the newest message before it
    kind            TEXT NOT NULL,
    record          BLOB NOT NULL,
    PRIMARY KEY (conversation_id, record_key)
);

-- Summaries before a user's command changed or removed them, for undo.
CREATE TABLE IF NOT EXISTS former_summaries (
    log_id     INTEGER NOT NULL REFERENCES context_log (log_id) ON DELETE CASCADE,
    summary_id TEXT NOT NULL,
    state      TEXT NOT NULL,     -- JSON: the row and the ids of its sources
    PRIMARY KEY (log_id, summary_id)
) WITHOUT ROWID;

-- Permanently deleted conversations: enough to recognise their messages, without their text.
CREATE TABLE IF NOT EXISTS pruned_histories (
    number      INTEGER PRIMARY KEY,  -- of the conversation that was deleted
    session_key TEXT,
    path        TEXT,                 -- of the transcript that it followed, and the id in its header
    header_id   TEXT,
    at          TEXT NOT NULL,
    marks       BLOB NOT NULL         -- twenty bytes for each message: digests of id and words, the second it was said
);
CREATE INDEX IF NOT EXISTS pruned_histories_key_idx ON pruned_histories (session_key);
CREATE INDEX IF NOT EXISTS pruned_histories_path_idx ON pruned_histories (path);
CREATE INDEX IF NOT EXISTS pruned_histories_header_idx ON pruned_histories (header_id);

-- Forks whose older history is stored only in the conversation that they were forked from.
CREATE TABLE IF NOT EXISTS fork_sources (
    conversation_id INTEGER NOT NULL REFERENCES conversations (conversation_id) ON DELETE CASCADE,
    source_id       INTEGER NOT NULL,
    PRIMARY KEY (conversation_id, source_id)
) WITHOUT ROWID;

-- What was forgotten on purpose: enough to recognise it, never its words.
CREATE TABLE IF NOT EXISTS tombstones (
    round           INTEGER NOT NULL,  -- of forgetting; they hold in this order
    digest          BLOB NOT NULL,     -- keyed: of a phrase, or of the fingerprint of a whole message
    length          INTEGER,           -- of a phrase, in characters; NULL for a whole message
    roll            INTEGER,           -- the keyed sum of its characters, 16 bits
    conversation_id INTEGER NOT NULL DEFAULT 0,  -- where a whole message is forgotten; 0 for everywhere
    PRIMARY KEY (round, digest, conversation_id)
) WITHOUT ROWID;

-- Evidence quoted before user messages, chosen once for each: ids and positions, never text.
CREATE TABLE IF NOT EXISTS prompt_evidence (
    evidence_id     INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation_id INTEGER NOT NULL REFERENCES conversations (conversation_id) ON DELETE CASCADE,
    message_id      INTEGER REFERENCES messages (message_id) ON DELETE CASCADE,  -- whose words; NULL until they are stored
    after_id        INTEGER NOT NULL,  -- the newest message of a user before those words
    asked           BLOB,              -- digest of words that are not stored yet
    fold            INTEGER NOT NULL,  -- the newest fold when it was chosen; after another one it is not shown again
    quotes          TEXT NOT NULL,     -- JSON: message id, first and last character, score, words that were found
    tokens          INTEGER NOT NULL,
    digest          BLOB,              -- of the block as it is shown; NULL without quotes
    at              TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS prompt_evidence_conv_idx ON prompt_evidence (conversation_id, evidence_id);

-- How prompts were assembled, the newest of each conversation: sizes, ids and reasons, never text.
CREATE TABLE IF NOT EXISTS prompt_receipts (
    receipt_id      INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation_id INTEGER NOT NULL REFERENCES conversations (conversation_id) ON DELETE CASCADE,
    at              TEXT NOT NULL,
    tokens          INTEGER NOT NULL,
    capacity        INTEGER NOT NULL,
    detail          TEXT NOT NULL      -- JSON: tokens by kind, ids with their forms, what was left out, quotes
);
CREATE INDEX IF NOT EXISTS prompt_receipts_conv_idx ON prompt_receipts (conversation_id, receipt_id);
