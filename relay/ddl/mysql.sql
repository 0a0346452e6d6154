-- The outbox of a service: its transactions insert rows, `wakecall relay` carries them to Wakecall and deletes them.
-- MySQL 8.0.13 or later, MariaDB 10.6 or later.
CREATE TABLE IF NOT EXISTS wakecall_outbox (
    seq BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    op VARCHAR(16) NOT NULL,                 -- push, change, delete, cancel_group
    topic VARCHAR(64) NULL,
    job_id VARCHAR(128) NULL,                -- NULL: a push gets one from its row, so a repetition finds it
    body MEDIUMTEXT NULL,                    -- JSON; as text, it reaches the endpoint byte for byte
    due_at BIGINT NULL,                      -- Unix milliseconds; or
    delay_ms BIGINT NULL,                    -- milliseconds after created_at
    priority VARCHAR(8) NULL,                -- high, normal, low
    group_name VARCHAR(128) NULL,
    options TEXT NULL,                       -- a JSON object: further fields of a push or change, close of a cancel
    order_key VARCHAR(255) NULL,             -- rows of one key are carried in the order of seq
    created_at BIGINT NOT NULL DEFAULT (UNIX_TIMESTAMP() * 1000 + MICROSECOND(NOW(3)) DIV 1000),
    -- Only the relay writes the columns below.
    state VARCHAR(8) NOT NULL DEFAULT 'waiting', -- waiting, claimed, retrying, refused
    claimed_by VARCHAR(64) NOT NULL DEFAULT '',
    claimed_until BIGINT NOT NULL DEFAULT 0,
    attempts INT NOT NULL DEFAULT 0,         -- refusals
    next_attempt_at BIGINT NOT NULL DEFAULT 0,
    last_error TEXT NULL,
    ordered_by VARCHAR(255) GENERATED ALWAYS AS (COALESCE(order_key, group_name, CONCAT(topic, ' ', job_id))) STORED,
    job VARCHAR(255) GENERATED ALWAYS AS (CONCAT(topic, ' ', job_id)) STORED, -- rows of one job are in order, too
    KEY wakecall_outbox_state (state, next_attempt_at, seq),
    KEY wakecall_outbox_order (ordered_by, state, seq),
    KEY wakecall_outbox_job (job, state, seq)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
