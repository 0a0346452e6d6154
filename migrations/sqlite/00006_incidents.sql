-- +goose Up
CREATE TABLE alert_causes (
    alert_id BIGINT NOT NULL PRIMARY KEY,
    causes TEXT NOT NULL -- JSON
);

-- Who looks after an alert. It is muted until handled_until; without one it is acknowledged until it ends.
CREATE TABLE alert_handled (
    alert_key VARCHAR(191) NOT NULL PRIMARY KEY,
    handled_alert BIGINT NOT NULL, -- the alert that was open then
    handled_by VARCHAR(128) NOT NULL,
    handled_why VARCHAR(500) NOT NULL,
    handled_at DATETIME NOT NULL,
    handled_until DATETIME NULL
);

-- What each recipient and webhook was told.
CREATE TABLE alert_told (
    person VARCHAR(191) NOT NULL PRIMARY KEY,
    state TEXT NOT NULL, -- JSON
    version BIGINT NOT NULL -- the host that counts it up sends
);

-- +goose Down
DROP TABLE alert_told;
DROP TABLE alert_handled;
DROP TABLE alert_causes;
