// Package registry keeps topics, shards, API tokens, users and the audit trail in a database (MySQL or MariaDB, or SQLite by
// default), and gives every process a snapshot of them in memory that follows changes, survives the database being
// away and is kept on disk for a restart without it. Validation of what is kept lives here, once, for the API, the command line and the admin.
//
// # Changes
//
// Every change is one transaction: the revision's row is raised by one, the change is made, and an entry of the audit trail says
// who made it, with the object before and after (no passwords, no hashes; of topics' secrets and of headers like Authorization a
// fingerprint). Taking the revision's row first puts the writers of all hosts in one line, so none can deadlock. Before the call returns
// the snapshot here shows the change. What is as it was makes no revision and no entry.
//
// A change that cannot be made because of the database is ErrUnavailable, within five seconds. It may be repeated: the only thing that
// cannot be known is whether a connection that broke during the commit lost the change or only the answer.
//
// # The snapshot
//
//	       Open ── database answers ──> loaded ── Run: revision differs, or Nudge ──> loaded …
//	        │                             │
//	        │ away                        │ kept on disk (0600, replaced in one step)
//	        v                             v
//	snapshot file ── read ──> served until the database answers, then loaded
//	        │
//	        └ none, or damaged: ErrUnavailable
//
// A Snapshot is immutable and read through an atomic pointer, so that readers never wait. Run reads the revision once a second,
// less often while the database is away, and at once after Nudge. It loads
// everything in one read-only transaction; loads follow each other, so the last one wins. The database is always right: after
// a backup was restored its revision is lower, and is followed too. A topic that did not change keeps its *Topic, so what was
// compiled for it can be kept by pointer.
//
// The file holds topics' secrets, since signing must go on after a restart without the database. Tokens are there, as in the
// database, by their SHA-256 only: they are 32 random bytes, which nobody can guess from it. Passwords are kept as bcrypt hashes, in the database only:
// signing in to the admin needs it.
//
// # The schema
//
// Open refuses a schema newer than the binary (ErrSchemaNewer), and an older one (ErrSchemaOlder) unless Options.Migrate lets it bring
// it up to date; see package migrations for what happens when several hosts do so at once. A process that started without the database
// completes its start in Run. Nothing else migrates.
package registry
