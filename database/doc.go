// Package database opens the database of an installation, SQLite or MySQL (MariaDB), and gives one handle to all
// packages that keep something there: the registry, the accounts of the web admin, tasks, alerts and history.
//
// Do runs an operation with a time limit and classifies its error: a Refusal is about the request and is returned as
// it is; an answer of the database about a statement is an error of the program; anything else means that the
// database is away, which is ErrUnavailable. Up reports what the last operation found.
//
// The schema is that of package migrations. Migrate brings it up to date; processes call it when they start.
package database
