// Package registry stores what every role follows: topics, schedules, shards, API tokens and settings, with an audit
// trail. Every process has a snapshot of them in memory. The snapshot follows changes, survives outages of the
// database, and is kept on disk so that a process can restart without the database. Topics, schedules, shards and
// tokens are validated here, for the API, the command line and the admin.
//
// # Changes
//
// Every change is one transaction: it increments the revision, makes the change, and writes one entry to the audit
// trail and one to the change log. The audit trail says who made the change, and shows the object before and after,
// without passwords and hashes, and with fingerprints in place of topics' secrets and of headers like Authorization.
// Every writer locks the revision's row first, so writers cannot deadlock. When the call returns, the local snapshot
// includes the change. A change that alters nothing creates no revision and no entry. Packages whose rows are not in
// the snapshot, such as account and bulk, use Change for the audit trail.
//
// A change of a schedule is told to the schedule's shard at the end of its transaction. If the commit then fails, the
// shard has a revision that the registry does not have, which package recurring repairs.
//
// If the database is unavailable, a change fails with ErrUnavailable within five seconds, and may be retried. If a
// connection breaks during the commit, it is unknown whether the change or only the reply was lost.
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
// A Snapshot is immutable and read through an atomic pointer, so readers never wait. Run polls the revision once a
// second, less often while the database is unavailable, and immediately after Nudge, which every process calls when
// another one announces a change through Redis. In one read-only transaction it loads what changed since the last
// revision according to the change log, at a cost that does not depend on the number of topics. If the log has a gap
// between the two revisions, it loads everything; so anyone who edits rows by hand publishes the edit by increasing
// revision.value. Loads run one after the other, so the last one wins. The database is always authoritative: a restored
// backup has a lower revision, and the snapshot follows that, too. A topic that did not change keeps its *Topic, so
// callers can cache by pointer what they compiled for it. A Subscription reports which topics may have changed.
//
// At start, a process reads the file first, and from the database only what has changed since. While Run follows
// changes, the file is replaced as a whole, at most every second, and less often if writing takes long (keepShare).
// Only one process of a host writes each revision. The file contains secrets in the clear, because signing must
// continue after a restart without the database. Like the database, it contains tokens only as SHA-256 hashes: a token
// is 32 random bytes, which cannot be guessed from the hash.
//
// Without the change log, every process would load everything after each change: 0.2 s of processor time with 10,000
// topics, 2 s with 100,000 (BenchmarkReload), on all databases alike. A writer waits for its own load, so 10,000
// topics registered one by one would take a quarter of an hour of it in each process.
//
// # Secrets
//
// The database stores secrets only encrypted with the installation's key (package seal): topics' signing secrets,
// headers with credentials and queries of callback URLs, shards' URLs with a password, and the seal.Texts of settings.
// The first host registers its key as the registry's. A host with another key does not start if there is a topic or
// shard that it cannot decrypt. If it started before there were secrets, it stores none, and keeps topics that it
// cannot decrypt as Locked: it accepts their pushes, and leaves their callbacks to other hosts.
//
// # The schema
//
// Open rejects a schema that is newer than the binary (ErrSchemaNewer), and an older one (ErrSchemaOlder) unless
// Options.Migrate is set; package migrations explains how several hosts migrate at once. A process that started without
// the database completes its start in Run. Nothing else migrates.
package registry
