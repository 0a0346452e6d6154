-- +goose Up
-- People whom an identity provider has signed in to the web admin.
CREATE TABLE provider_users (
    name TEXT NOT NULL PRIMARY KEY, -- in the audit trail
    issuer TEXT NOT NULL,
    subject TEXT NOT NULL,
    role TEXT NOT NULL, -- that of the last sign-in
    role_group TEXT NOT NULL, -- the group that has it
    created_at DATETIME NOT NULL,
    signed_in_at DATETIME NOT NULL,
    address TEXT NOT NULL, -- from where that was
    UNIQUE (issuer, subject)
);

-- +goose Down
DROP TABLE provider_users;
