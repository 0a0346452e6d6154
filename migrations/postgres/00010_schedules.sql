-- +goose Up
-- Recurring jobs. The times up to which their occurrences are decided are in Redis.
CREATE TABLE schedules (
    name VARCHAR(64) COLLATE "C" NOT NULL PRIMARY KEY,
    topic VARCHAR(64) NOT NULL,
    spec TEXT NOT NULL, -- the schedule as JSON
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL
);
CREATE INDEX schedules_topic ON schedules (topic);

-- +goose Down
DROP TABLE schedules;
