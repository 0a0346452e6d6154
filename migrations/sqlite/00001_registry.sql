-- +goose Up
CREATE TABLE topics (
    name VARCHAR(64) NOT NULL PRIMARY KEY,
    spec TEXT NOT NULL, -- the topic as JSON, its secrets with it
    created_at DATETIME NOT NULL,
    updated_at DATETIME NOT NULL
);

CREATE TABLE shards (
    name VARCHAR(64) NOT NULL PRIMARY KEY,
    url TEXT NOT NULL,
    state VARCHAR(16) NOT NULL,
    identity VARCHAR(64) NOT NULL UNIQUE, -- of its data, whatever the shard is called
    former TEXT NOT NULL -- earlier names
);

CREATE TABLE tokens (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name VARCHAR(128) NOT NULL,
    hash CHAR(64) NOT NULL UNIQUE,
    rights VARCHAR(255) NOT NULL,
    topics TEXT NOT NULL,
    created_at DATETIME NOT NULL,
    expires_at DATETIME NULL,
    last_used_at DATETIME NULL -- to the minute; written without a revision
);

CREATE TABLE users (
    name VARCHAR(64) NOT NULL PRIMARY KEY,
    password_hash VARCHAR(255) NOT NULL,
    role VARCHAR(16) NOT NULL,
    created_at DATETIME NOT NULL
);

CREATE TABLE audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at DATETIME NOT NULL,
    actor VARCHAR(128) NOT NULL,
    action VARCHAR(32) NOT NULL,
    object VARCHAR(255) NOT NULL,
    before_state TEXT NOT NULL,
    after_state TEXT NOT NULL
);
CREATE INDEX audit_object ON audit (object);

-- One row. value grows with every change; the flags say what has been done once and for all.
CREATE TABLE revision (
    id INTEGER NOT NULL PRIMARY KEY,
    value BIGINT NOT NULL,
    seeded INTEGER NOT NULL,
    bootstrapped INTEGER NOT NULL
);
INSERT INTO revision (id, value, seeded, bootstrapped) VALUES (1, 1, 0, 0);

-- +goose Down
DROP TABLE revision;
DROP TABLE audit;
DROP TABLE users;
DROP TABLE tokens;
DROP TABLE shards;
DROP TABLE topics;
