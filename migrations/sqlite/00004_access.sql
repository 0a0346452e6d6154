-- +goose Up
CREATE TABLE user_access (
    user TEXT NOT NULL PRIMARY KEY,
    disabled BOOLEAN NOT NULL DEFAULT FALSE,
    signed_in_at DATETIME NULL,
    address TEXT NOT NULL DEFAULT '' -- from where that was
);

CREATE TABLE rotations (
    topic TEXT NOT NULL PRIMARY KEY,
    until DATETIME NOT NULL -- the older of its secrets signs until then
);

-- +goose Down
DROP TABLE rotations;
DROP TABLE user_access;
