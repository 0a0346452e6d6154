-- The outbox of a service: its transactions insert rows, `wakecall relay` carries them to Wakecall and deletes them.
-- SQLite 3.31 or later.
CREATE TABLE IF NOT EXISTS wakecall_outbox (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    op TEXT NOT NULL,                        -- push, change, delete, cancel_group
    topic TEXT,
    job_id TEXT,                             -- NULL: a push gets one from its row, so a repetition finds it
    body TEXT,                               -- JSON; as text, it reaches the endpoint byte for byte
    due_at INTEGER,                          -- Unix milliseconds; or
    delay_ms INTEGER,                        -- milliseconds after created_at
    priority TEXT,                           -- high, normal, low
    group_name TEXT,
    options TEXT,                            -- a JSON object: further fields of a push or change, close of a cancel
    order_key TEXT,                          -- rows of one key are carried in the order of seq
    created_at INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    -- Only the relay writes the columns below.
    state TEXT NOT NULL DEFAULT 'waiting',   -- waiting, claimed, retrying, refused
    claimed_by TEXT NOT NULL DEFAULT '',
    claimed_until INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,     -- refusals
    next_attempt_at INTEGER NOT NULL DEFAULT 0,
    last_error TEXT,
    ordered_by TEXT GENERATED ALWAYS AS (COALESCE(order_key, group_name, topic || ' ' || job_id)) STORED,
    job TEXT GENERATED ALWAYS AS (topic || ' ' || job_id) STORED -- rows of one job are in order, too
);
CREATE INDEX IF NOT EXISTS wakecall_outbox_state ON wakecall_outbox (state, next_attempt_at, seq);
CREATE INDEX IF NOT EXISTS wakecall_outbox_order ON wakecall_outbox (ordered_by, state, seq);
CREATE INDEX IF NOT EXISTS wakecall_outbox_job ON wakecall_outbox (job, state, seq);
