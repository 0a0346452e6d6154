-- +goose Up
-- People whom an identity provider has signed in to the web admin.
CREATE TABLE IF NOT EXISTS provider_users (
    name VARCHAR(96) NOT NULL PRIMARY KEY, -- in the audit trail
    issuer VARCHAR(255) NOT NULL,
    subject VARCHAR(255) NOT NULL,
    role VARCHAR(16) NOT NULL, -- that of the last sign-in
    role_group VARCHAR(255) NOT NULL, -- the group that has it
    created_at DATETIME(6) NOT NULL,
    signed_in_at DATETIME(6) NOT NULL,
    address VARCHAR(64) NOT NULL, -- from where that was
    UNIQUE INDEX provider_users_subject (issuer, subject)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS provider_users;
