-- +goose Up
-- What a token may push, with the tokens that it has made, and by which token it was made; 0: no limit, by none.
CREATE TABLE IF NOT EXISTS token_quotas (
    token_id BIGINT UNSIGNED NOT NULL PRIMARY KEY,
    pushes_per_second BIGINT NOT NULL DEFAULT 0,
    waiting_jobs BIGINT NOT NULL DEFAULT 0,
    made_by BIGINT UNSIGNED NOT NULL DEFAULT 0
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS token_quotas;
