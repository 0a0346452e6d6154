-- +goose Up
-- When a pause ends by itself.
ALTER TABLE topic_notes ADD COLUMN paused_until DATETIME NULL;

-- +goose Down
ALTER TABLE topic_notes DROP COLUMN paused_until;
