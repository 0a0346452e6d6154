-- +goose Up
-- Every statement can be repeated: MySQL commits each, and a host may die in between.
-- What each revision changed, so that processes read that and not everything. An older wakecall leaves its changes out: a gap.
CREATE TABLE IF NOT EXISTS change_log (
    revision BIGINT NOT NULL PRIMARY KEY,
    mark VARCHAR(32) NOT NULL, -- random: tells this revision from one of the same number in a backup
    object VARCHAR(255) NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS change_log;
