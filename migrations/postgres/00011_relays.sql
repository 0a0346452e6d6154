-- +goose Up
-- The last reports of the relays, each about one outbox table. They are deleted a day later.
CREATE TABLE relays (
    name VARCHAR(100) COLLATE "C" NOT NULL PRIMARY KEY,
    topics TEXT NOT NULL, -- JSON: the patterns of the token that reported
    seen_at TIMESTAMPTZ NOT NULL,
    report TEXT NOT NULL -- JSON
);

-- +goose Down
DROP TABLE relays;
