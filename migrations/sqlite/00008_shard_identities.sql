-- +goose Up
-- What the data of each shard is known by, whatever the shard is called, and what it was called before. Shards without a
-- row are known by their names.
CREATE TABLE shard_identities (
    shard VARCHAR(64) NOT NULL PRIMARY KEY,
    identity VARCHAR(64) NOT NULL UNIQUE,
    former TEXT NOT NULL
);

-- +goose Down
DROP TABLE shard_identities;
