// Package migrations contains the registry's schema as numbered SQL files, one folder per database, and applies them.
//
// Any number of hosts may call Up at once. On MySQL and MariaDB the host that holds the advisory lock wakecall_migrate
// migrates and the others wait. The lock belongs to its connection, so it ends when a host dies. On SQLite the lock is
// flock(2) on a file beside the database (its name and -migrate), which ends with the process.
//
// MySQL commits after every statement that changes the schema, so a host that dies leaves a step half done. Therefore
// every statement of a step can be repeated (IF NOT EXISTS, INSERT IGNORE), and the next start completes the step. On
// SQLite a step is one transaction.
//
// After a roll-back a schema may be newer than the binary: Up and Status then return ErrSchemaNewer and change nothing.
//
// To add a step, add a file with the next number to both folders. Binaries of the previous release use the database
// while hosts are upgraded one by one, so a step only adds. What is no longer used is dropped one release later.
package migrations
