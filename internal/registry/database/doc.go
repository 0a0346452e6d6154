// Package database opens the database of an installation, SQLite, MySQL (MariaDB) or PostgreSQL, and provides one
// handle for all packages that store something there: the registry, the accounts of the web admin, tasks, alerts and
// history.
//
// Do runs an operation with a time limit and classifies its error. A Refusal is about the request and is returned
// unchanged. An error about a statement is a bug of the program. Any other error means that the database is
// unavailable, and becomes ErrUnavailable. Up reports the result of the last operation.
//
// The schema is in package migrations. Migrate applies it; processes call it when they start.
package database
