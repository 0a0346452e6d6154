-- +goose Up
-- When a pause ends by itself. MySQL has no ADD COLUMN IF NOT EXISTS, and the step can be repeated.
SET @missing = (SELECT COUNT(*) = 0 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'topic_notes' AND column_name = 'paused_until');
SET @add = IF(@missing, 'ALTER TABLE topic_notes ADD COLUMN paused_until DATETIME(6) NULL', 'DO 0');
PREPARE add_paused_until FROM @add;
EXECUTE add_paused_until;
DEALLOCATE PREPARE add_paused_until;

-- +goose Down
ALTER TABLE topic_notes DROP COLUMN paused_until;
