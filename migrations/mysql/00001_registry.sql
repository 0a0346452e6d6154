-- +goose Up
-- Every statement can be repeated: MySQL commits each, and a host may die in between.
CREATE TABLE IF NOT EXISTS topics (
    name VARCHAR(64) NOT NULL PRIMARY KEY,
    spec LONGTEXT NOT NULL, -- the topic as JSON, its secrets with it
    created_at DATETIME(6) NOT NULL,
    updated_at DATETIME(6) NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS shards (
    name VARCHAR(64) NOT NULL PRIMARY KEY,
    url LONGTEXT NOT NULL,
    state VARCHAR(16) NOT NULL,
    identity VARCHAR(64) NOT NULL UNIQUE, -- of its data, whatever the shard is called
    former TEXT NOT NULL -- earlier names
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS tokens (
    id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    name VARCHAR(128) NOT NULL,
    hash CHAR(64) NOT NULL UNIQUE,
    rights VARCHAR(255) NOT NULL,
    topics LONGTEXT NOT NULL,
    created_at DATETIME(6) NOT NULL,
    expires_at DATETIME(6) NULL,
    last_used_at DATETIME(6) NULL -- to the minute; written without a revision
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS users (
    name VARCHAR(64) NOT NULL PRIMARY KEY,
    password_hash VARCHAR(255) NOT NULL,
    role VARCHAR(16) NOT NULL,
    created_at DATETIME(6) NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS audit (
    id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    at DATETIME(6) NOT NULL,
    actor VARCHAR(128) NOT NULL,
    action VARCHAR(32) NOT NULL,
    object VARCHAR(255) NOT NULL,
    before_state LONGTEXT NOT NULL,
    after_state LONGTEXT NOT NULL,
    INDEX audit_object (object)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- One row. value grows with every change; the flags say what has been done once and for all.
CREATE TABLE IF NOT EXISTS revision (
    id INTEGER NOT NULL PRIMARY KEY,
    value BIGINT NOT NULL,
    seeded INTEGER NOT NULL,
    bootstrapped INTEGER NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
INSERT IGNORE INTO revision (id, value, seeded, bootstrapped) VALUES (1, 1, 0, 0);

-- +goose Down
DROP TABLE IF EXISTS revision;
DROP TABLE IF EXISTS audit;
DROP TABLE IF EXISTS users;
DROP TABLE IF EXISTS tokens;
DROP TABLE IF EXISTS shards;
DROP TABLE IF EXISTS topics;
