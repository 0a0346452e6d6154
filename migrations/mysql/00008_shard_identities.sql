-- +goose Up
-- Every statement can be repeated: MySQL commits each, and a host may die in between.
-- What the data of each shard is known by, whatever the shard is called, and what it was called before. Shards without a
-- row are known by their names.
CREATE TABLE IF NOT EXISTS shard_identities (
    shard VARCHAR(64) NOT NULL PRIMARY KEY,
    identity VARCHAR(64) NOT NULL UNIQUE,
    former TEXT NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS shard_identities;
