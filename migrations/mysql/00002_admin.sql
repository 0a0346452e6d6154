-- +goose Up
-- Every statement can be repeated: MySQL commits each, and a host may die in between.
CREATE TABLE IF NOT EXISTS settings (
    name VARCHAR(64) NOT NULL PRIMARY KEY,
    value LONGTEXT NOT NULL, -- JSON, what is secret in it encrypted
    updated_at DATETIME(6) NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS topic_notes (
    topic VARCHAR(64) NOT NULL PRIMARY KEY,
    pause_reason LONGTEXT NOT NULL,
    paused_by VARCHAR(128) NOT NULL,
    paused_at DATETIME(6) NULL,
    secrets_changed_at DATETIME(6) NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS second_factors (
    user VARCHAR(64) NOT NULL PRIMARY KEY,
    secret LONGTEXT NOT NULL -- encrypted
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS sessions (
    token VARCHAR(64) NOT NULL PRIMARY KEY, -- its hash
    data LONGBLOB NOT NULL,
    expires_at DATETIME(6) NOT NULL,
    INDEX sessions_expires (expires_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS alerts (
    id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    open_key VARCHAR(191) NULL UNIQUE, -- the key of an alert that has not ended
    alert_key VARCHAR(191) NOT NULL,
    kind VARCHAR(32) NOT NULL,
    severity VARCHAR(16) NOT NULL,
    topic VARCHAR(64) NOT NULL,
    shard VARCHAR(64) NOT NULL,
    host VARCHAR(128) NOT NULL,
    began_at DATETIME(6) NOT NULL,
    last_seen_at DATETIME(6) NOT NULL,
    ended_at DATETIME(6) NULL,
    seen INTEGER NOT NULL,
    causes LONGTEXT NOT NULL, -- JSON
    INDEX alerts_kind (kind)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS alert_deliveries (
    id VARCHAR(32) NOT NULL PRIMARY KEY,
    at DATETIME(6) NOT NULL,
    channel VARCHAR(64) NOT NULL,
    recipient VARCHAR(255) NOT NULL,
    subject VARCHAR(255) NOT NULL,
    state VARCHAR(16) NOT NULL,
    tries INTEGER NOT NULL,
    error LONGTEXT NOT NULL,
    message LONGTEXT NOT NULL, -- JSON while it waits
    INDEX alert_deliveries_at (at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS samples (
    series VARCHAR(80) NOT NULL,
    tier VARCHAR(8) NOT NULL,
    at BIGINT NOT NULL, -- Unix seconds
    data LONGTEXT NOT NULL,
    PRIMARY KEY (series, tier, at),
    INDEX samples_age (tier, at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS leads (
    role VARCHAR(64) NOT NULL PRIMARY KEY,
    host VARCHAR(128) NOT NULL,
    until_at BIGINT NOT NULL -- Unix milliseconds by the database's clock
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS tasks (
    id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    kind VARCHAR(32) NOT NULL,
    params LONGTEXT NOT NULL,
    state VARCHAR(16) NOT NULL,
    done BIGINT NOT NULL,
    total BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    error LONGTEXT NOT NULL,
    actor VARCHAR(128) NOT NULL,
    host VARCHAR(128) NOT NULL,
    cancel_requested INTEGER NOT NULL,
    created_at DATETIME(6) NOT NULL,
    updated_at DATETIME(6) NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS tasks;
DROP TABLE IF EXISTS leads;
DROP TABLE IF EXISTS samples;
DROP TABLE IF EXISTS alert_deliveries;
DROP TABLE IF EXISTS alerts;
DROP TABLE IF EXISTS sessions;
DROP TABLE IF EXISTS second_factors;
DROP TABLE IF EXISTS topic_notes;
DROP TABLE IF EXISTS settings;
