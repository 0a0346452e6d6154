-- +goose Up
CREATE TABLE user_access (
    user TEXT NOT NULL PRIMARY KEY,
    disabled BOOLEAN NOT NULL DEFAULT FALSE,
    signed_in_at DATETIME NULL,
    address TEXT NOT NULL DEFAULT '' -- from where that was
);

-- +goose Down
DROP TABLE user_access;
