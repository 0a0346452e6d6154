-- +goose Up
-- The last reports of the relays, each about one outbox table. They are deleted a day later.
CREATE TABLE IF NOT EXISTS relays (
    name VARCHAR(100) NOT NULL PRIMARY KEY,
    topics TEXT NOT NULL, -- JSON: the patterns of the token that reported
    seen_at DATETIME(6) NOT NULL,
    report TEXT NOT NULL -- JSON
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS relays;
