-- +goose Up
-- What a token may push, with the tokens that it has made, and by which token it was made; 0: no limit, by none.
CREATE TABLE token_quotas (
    token_id BIGINT NOT NULL PRIMARY KEY,
    pushes_per_second BIGINT NOT NULL DEFAULT 0,
    waiting_jobs BIGINT NOT NULL DEFAULT 0,
    made_by BIGINT NOT NULL DEFAULT 0
);

-- +goose Down
DROP TABLE token_quotas;
