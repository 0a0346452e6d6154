-- +goose Up
-- Every statement can be repeated: MySQL commits each, and a host may die in between.
-- What the tokens table has no column for. A token without a row does not expire and has not been used.
CREATE TABLE IF NOT EXISTS token_access (
    token BIGINT UNSIGNED NOT NULL PRIMARY KEY,
    expires_at DATETIME(6) NULL,
    last_used_at DATETIME(6) NULL -- to the minute; written without a revision
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS token_access;
