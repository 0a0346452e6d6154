-- +goose Up
-- The pushes that each process refused because no shard or no journal accepted them.
CREATE TABLE refused_pushes (
    id VARCHAR(32) COLLATE "C" NOT NULL PRIMARY KEY,
    last_at TIMESTAMPTZ NOT NULL, -- of the last of them
    counts TEXT NOT NULL -- JSON
);

-- +goose Down
DROP TABLE refused_pushes;
