// Package registry keeps topics, shards, API tokens, users and the audit trail in a database (MySQL, or SQLite by
// default), and gives every process a snapshot of them in memory that follows changes, survives the database being
// away and is kept on disk for a restart without it. Validation of what is kept lives here, once, for the API, the command line and the admin.
package registry
