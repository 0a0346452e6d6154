-- +goose Up
-- Every statement can be repeated: MySQL commits each, and a host may die in between.
CREATE TABLE IF NOT EXISTS alert_finders (
    alert_id BIGINT UNSIGNED NOT NULL,
    host VARCHAR(128) NOT NULL,
    seen_at BIGINT NOT NULL, -- Unix milliseconds by the database's clock
    PRIMARY KEY (alert_id, host)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS alert_outbox (
    delivery_id BIGINT UNSIGNED NOT NULL PRIMARY KEY,
    message LONGTEXT NOT NULL, -- JSON
    holder VARCHAR(191) NOT NULL, -- the process that sends it
    held_until BIGINT NOT NULL -- Unix milliseconds by the database's clock
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS told_deaths (
    topic VARCHAR(64) NOT NULL PRIMARY KEY,
    died BIGINT NOT NULL -- how many were dead when a digest was made last
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS told_deaths;
DROP TABLE IF EXISTS alert_outbox;
DROP TABLE IF EXISTS alert_finders;
