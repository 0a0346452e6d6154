-- +goose Up
CREATE TABLE alert_finders (
    alert_id BIGINT NOT NULL,
    host VARCHAR(128) NOT NULL,
    seen_at BIGINT NOT NULL, -- Unix milliseconds by the database's clock
    PRIMARY KEY (alert_id, host)
);

CREATE TABLE alert_outbox (
    delivery_id BIGINT NOT NULL PRIMARY KEY,
    message TEXT NOT NULL, -- JSON
    holder VARCHAR(191) NOT NULL, -- the process that sends it
    held_until BIGINT NOT NULL -- Unix milliseconds by the database's clock
);

CREATE TABLE told_deaths (
    topic VARCHAR(64) NOT NULL PRIMARY KEY,
    died BIGINT NOT NULL -- how many were dead when a digest was made last
);

-- +goose Down
DROP TABLE told_deaths;
DROP TABLE alert_outbox;
DROP TABLE alert_finders;
