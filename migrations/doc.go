// Package migrations contains the registry's schema as numbered SQL files, one folder per database, and applies them.
//
// Any number of hosts may call Up at once. On MySQL and MariaDB the host that holds the advisory lock wakecall_migrate
// migrates and the others wait. On PostgreSQL it is an advisory lock, too. The lock belongs to its connection, so it
// ends when a host dies. On SQLite the lock is flock(2) on a file beside the database (its name and -migrate), which
// ends with the process.
//
// MySQL commits after every statement that changes the schema, so a host that dies leaves a step half done. Therefore
// every statement of a step can be repeated (IF NOT EXISTS, INSERT IGNORE), and the next start completes the step. On
// PostgreSQL and SQLite a step is one transaction.
//
// While hosts are upgraded one by one, and after a roll-back, binaries of the previous release use a schema that is
// newer than theirs. So a step only adds, and new columns have defaults. The table schema_reader has the oldest step
// that a binary must know; a step that drops what older binaries use raises it, one release later at the earliest. An
// older binary gets ErrSchemaNewer from Up and Status, which change nothing.
//
// To add a step, add a file with the next number to every folder.
package migrations
