-- +goose Up
-- What the tokens table has no column for. A token without a row does not expire and has not been used.
CREATE TABLE token_access (
    token INTEGER NOT NULL PRIMARY KEY,
    expires_at DATETIME NULL,
    last_used_at DATETIME NULL -- to the minute; written without a revision
);

-- +goose Down
DROP TABLE token_access;
