-- +goose Up
-- Names of topics that were deleted: their jobs are not called. The audit trail is pruned, this is not.
CREATE TABLE deleted_topics (
    name VARCHAR(64) COLLATE "C" NOT NULL PRIMARY KEY
);

-- +goose Down
DROP TABLE deleted_topics;
