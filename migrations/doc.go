// Package migrations has the registry's schema as numbered SQL files, one folder for each database, and applies them.
//
// Any number of hosts may call Up at once. On MySQL and MariaDB the one that has the advisory lock wakecall_migrate
// works and the others wait; the lock belongs to its connection, so it ends with a host that dies. On SQLite the lock
// is flock(2) on a file beside the database (its name and -migrate), which ends with the process.
//
// MySQL commits after every statement that changes the schema, so a host that dies leaves half a step. Every statement
// of a step can therefore be repeated (IF NOT EXISTS, INSERT IGNORE), and the next start completes it. On SQLite a step
// is one transaction.
//
// After a roll-back a schema may be newer than the binary: Up and Status then return ErrSchemaNewer and change nothing.
//
// A new step is one file with the next number in both folders. Binaries of the previous release use the database while
// hosts are upgraded one by one, so a step only adds; what is no longer used is dropped one release later.
package migrations
