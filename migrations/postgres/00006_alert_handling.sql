-- +goose Up
-- Who takes care of an alert. It is muted until handled_until; without one it is acknowledged until it ends.
CREATE TABLE alert_handled (
    alert_key VARCHAR(191) COLLATE "C" NOT NULL PRIMARY KEY,
    handled_alert BIGINT NOT NULL, -- the alert that was open then
    handled_by VARCHAR(128) NOT NULL,
    handled_why VARCHAR(500) NOT NULL,
    handled_at TIMESTAMPTZ NOT NULL,
    handled_until TIMESTAMPTZ NULL
);

-- +goose Down
DROP TABLE alert_handled;
