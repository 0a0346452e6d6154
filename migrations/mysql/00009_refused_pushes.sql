-- +goose Up
-- The pushes that each process refused because no shard or no journal accepted them.
CREATE TABLE IF NOT EXISTS refused_pushes (
    id VARCHAR(32) NOT NULL PRIMARY KEY,
    last_at DATETIME(6) NOT NULL, -- of the last of them
    counts TEXT NOT NULL -- JSON
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS refused_pushes;
