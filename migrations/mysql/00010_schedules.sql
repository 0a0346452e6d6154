-- +goose Up
-- Recurring jobs. The times up to which their occurrences are decided are in Redis.
CREATE TABLE IF NOT EXISTS schedules (
    name VARCHAR(64) NOT NULL PRIMARY KEY,
    topic VARCHAR(64) NOT NULL,
    spec LONGTEXT NOT NULL, -- the schedule as JSON
    created_at DATETIME(6) NOT NULL,
    updated_at DATETIME(6) NOT NULL,
    INDEX schedules_topic (topic)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS schedules;
