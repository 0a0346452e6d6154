-- +goose Up
-- oldest is the step that a binary must know to use this schema. Steps only add, so it stays; a step that older binaries
-- cannot work with raises it.
CREATE TABLE schema_reader (oldest BIGINT NOT NULL PRIMARY KEY);
INSERT INTO schema_reader (oldest) VALUES (8);

-- +goose Down
DROP TABLE schema_reader;
