-- +goose Up
-- Every statement can be repeated: MySQL commits each, and a host may die in between.
-- Who takes care of an alert. It is muted until handled_until; without one it is acknowledged until it ends.
CREATE TABLE IF NOT EXISTS alert_handled (
    alert_key VARCHAR(191) NOT NULL PRIMARY KEY,
    handled_alert BIGINT UNSIGNED NOT NULL, -- the alert that was open then
    handled_by VARCHAR(128) NOT NULL,
    handled_why VARCHAR(500) NOT NULL,
    handled_at DATETIME(6) NOT NULL,
    handled_until DATETIME(6) NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS alert_handled;
