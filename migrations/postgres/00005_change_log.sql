-- +goose Up
-- What each revision changed, so that processes read that and not everything. An older wakecall leaves its changes out: a gap.
CREATE TABLE change_log (
    revision BIGINT NOT NULL PRIMARY KEY,
    mark VARCHAR(32) NOT NULL, -- random: tells this revision from one of the same number in a backup
    object VARCHAR(255) COLLATE "C" NOT NULL
);

-- +goose Down
DROP TABLE change_log;
