-- +goose Up
-- Every statement can be repeated: MySQL commits each, and a host may die in between.
CREATE TABLE IF NOT EXISTS user_access (
    user VARCHAR(64) NOT NULL PRIMARY KEY,
    disabled BOOLEAN NOT NULL DEFAULT FALSE,
    signed_in_at DATETIME(6) NULL,
    address VARCHAR(64) NOT NULL DEFAULT '' -- from where that was
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS rotations (
    topic VARCHAR(64) NOT NULL PRIMARY KEY,
    until DATETIME(6) NOT NULL -- the older of its secrets signs until then
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS rotations;
DROP TABLE IF EXISTS user_access;
