-- +goose Up
CREATE TABLE settings (
    name VARCHAR(64) NOT NULL PRIMARY KEY,
    value TEXT NOT NULL, -- JSON, what is secret in it encrypted
    updated_at DATETIME NOT NULL
);

CREATE TABLE topic_notes (
    topic VARCHAR(64) NOT NULL PRIMARY KEY,
    pause_reason TEXT NOT NULL,
    paused_by VARCHAR(128) NOT NULL,
    paused_at DATETIME NULL,
    secrets_changed_at DATETIME NULL
);

CREATE TABLE second_factors (
    user VARCHAR(64) NOT NULL PRIMARY KEY,
    secret TEXT NOT NULL -- encrypted
);

CREATE TABLE sessions (
    token VARCHAR(64) NOT NULL PRIMARY KEY, -- its hash
    data BLOB NOT NULL,
    expires_at DATETIME NOT NULL
);
CREATE INDEX sessions_expires ON sessions (expires_at);

CREATE TABLE alerts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    open_key VARCHAR(191) NULL UNIQUE, -- the key of an alert that has not ended
    alert_key VARCHAR(191) NOT NULL,
    kind VARCHAR(32) NOT NULL,
    severity VARCHAR(16) NOT NULL,
    topic VARCHAR(64) NOT NULL,
    shard VARCHAR(64) NOT NULL,
    host VARCHAR(128) NOT NULL,
    began_at DATETIME NOT NULL,
    last_seen_at DATETIME NOT NULL,
    ended_at DATETIME NULL,
    seen INTEGER NOT NULL,
    causes TEXT NOT NULL -- JSON
);
CREATE INDEX alerts_kind ON alerts (kind);

CREATE TABLE alert_deliveries (
    id VARCHAR(32) NOT NULL PRIMARY KEY,
    at DATETIME NOT NULL,
    channel VARCHAR(64) NOT NULL,
    recipient VARCHAR(255) NOT NULL,
    subject VARCHAR(255) NOT NULL,
    state VARCHAR(16) NOT NULL,
    tries INTEGER NOT NULL,
    error TEXT NOT NULL,
    message TEXT NOT NULL -- JSON while it waits
);
CREATE INDEX alert_deliveries_at ON alert_deliveries (at);

CREATE TABLE samples (
    series VARCHAR(80) NOT NULL,
    tier VARCHAR(8) NOT NULL,
    at BIGINT NOT NULL, -- Unix seconds
    data TEXT NOT NULL,
    PRIMARY KEY (series, tier, at)
) WITHOUT ROWID;
CREATE INDEX samples_age ON samples (tier, at);

CREATE TABLE leads (
    role VARCHAR(64) NOT NULL PRIMARY KEY,
    host VARCHAR(128) NOT NULL,
    until_at BIGINT NOT NULL -- Unix milliseconds by the database's clock
);

CREATE TABLE tasks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind VARCHAR(32) NOT NULL,
    params TEXT NOT NULL,
    state VARCHAR(16) NOT NULL,
    done BIGINT NOT NULL,
    total BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    error TEXT NOT NULL,
    actor VARCHAR(128) NOT NULL,
    host VARCHAR(128) NOT NULL,
    cancel_requested INTEGER NOT NULL,
    created_at DATETIME NOT NULL,
    updated_at DATETIME NOT NULL
);

-- +goose Down
DROP TABLE tasks;
DROP TABLE leads;
DROP TABLE samples;
DROP TABLE alert_deliveries;
DROP TABLE alerts;
DROP TABLE sessions;
DROP TABLE second_factors;
DROP TABLE topic_notes;
DROP TABLE settings;
