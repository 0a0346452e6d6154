-- +goose Up
-- Every statement can be repeated: MySQL commits each, and a host may die in between.
-- What each host finds.
CREATE TABLE IF NOT EXISTS alert_reports (
    host VARCHAR(128) NOT NULL PRIMARY KEY,
    findings LONGTEXT NOT NULL, -- JSON
    reported_at BIGINT NOT NULL -- Unix milliseconds by the database's clock
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- What each mail address and webhook was notified about.
CREATE TABLE IF NOT EXISTS alert_receivers (
    receiver VARCHAR(191) NOT NULL PRIMARY KEY,
    state LONGTEXT NOT NULL -- JSON
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS alert_deaths (
    topic VARCHAR(64) NOT NULL PRIMARY KEY,
    died BIGINT NOT NULL -- how many deaths were reported
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS alert_deaths;
DROP TABLE IF EXISTS alert_receivers;
DROP TABLE IF EXISTS alert_reports;
