-- +goose Up
CREATE TABLE user_access (
    "user" TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    disabled BOOLEAN NOT NULL DEFAULT FALSE,
    signed_in_at TIMESTAMPTZ NULL,
    address TEXT NOT NULL DEFAULT '' -- from where that was
);

CREATE TABLE rotations (
    topic TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    until TIMESTAMPTZ NOT NULL -- the older of its secrets signs until then
);

-- +goose Down
DROP TABLE rotations;
DROP TABLE user_access;
