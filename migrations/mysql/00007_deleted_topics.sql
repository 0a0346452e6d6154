-- +goose Up
-- Every statement can be repeated: MySQL commits each, and a host may die in between.
-- Names of topics that were deleted: their jobs are not called. The audit trail is pruned, this is not.
CREATE TABLE IF NOT EXISTS deleted_topics (
    name VARCHAR(64) NOT NULL PRIMARY KEY
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS deleted_topics;
