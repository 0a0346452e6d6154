-- +goose Up
-- What each host finds.
CREATE TABLE alert_reports (
    host VARCHAR(128) COLLATE "C" NOT NULL PRIMARY KEY,
    findings TEXT NOT NULL, -- JSON
    reported_at BIGINT NOT NULL -- Unix milliseconds by the database's clock
);

-- What each mail address and webhook was notified about.
CREATE TABLE alert_receivers (
    receiver VARCHAR(191) COLLATE "C" NOT NULL PRIMARY KEY,
    state TEXT NOT NULL -- JSON
);

CREATE TABLE alert_deaths (
    topic VARCHAR(64) COLLATE "C" NOT NULL PRIMARY KEY,
    died BIGINT NOT NULL -- how many deaths were reported
);

-- +goose Down
DROP TABLE alert_deaths;
DROP TABLE alert_receivers;
DROP TABLE alert_reports;
