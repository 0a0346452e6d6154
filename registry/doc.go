// Package registry keeps what every role follows: topics, shards, API tokens and settings, with an audit trail. Every
// process has a snapshot of them in memory, which follows changes, survives outages of the database and is kept on
// disk for a restart without it. Topics, shards and tokens are validated here, for the API, the command line and the
// admin.
//
// # Changes
//
// Every change is one transaction: it increments the revision, makes the change, and writes an entry of the audit
// trail and one of the change log. The audit trail says who made the change, and shows the object before and after:
// without passwords and hashes, with fingerprints of topics' secrets and of headers like Authorization. All writers
// take the revision's row first, so none can deadlock. When the call returns, the local snapshot shows the change. A
// change that changes nothing makes no revision and no entry. Packages whose rows are not in the snapshot, such as
// admin/account and bulk, use Change for the audit trail.
//
// If the database does not allow a change, the error is ErrUnavailable, within five seconds. The change may be
// repeated. Only one thing cannot be known: whether a connection that broke during the commit lost the change or only
// the answer.
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
// second, less often while the database is away, and at once after Nudge, which every process calls when another one
// announces a change through Redis. It loads in one read-only transaction what changed since the last revision, as the
// change log says, at a cost that does not depend on the number of topics. If the log does not lead from the last
// revision to the present one, it loads everything: so who edits rows by hand makes the edit known by increasing
// revision.value. Loads follow each other, so the last one wins. The database is always right: after a backup was
// restored its revision is lower, and is followed too. A topic that did not change keeps its *Topic, so that what was
// compiled for it can be kept by pointer; a Subscription tells which may have changed.
//
// A start reads the file first, and from the database only what changed since. The file is replaced as a whole, at
// most every second, and less often when writing takes long (keepShare), while Run follows changes; of the processes
// of a host, one writes a revision. It contains secrets in the clear, because signing must go on after a restart
// without the database. It contains tokens, like the database, only as SHA-256: they are 32 random bytes, which nobody
// can guess from it.
//
// # Secrets
//
// The database has secrets only encrypted with the installation's key (package seal): topics' signing secrets, headers
// with credentials and queries of addresses, shards' URLs with a password, and the seal.Texts of settings. The first
// host makes its key that of the registry and seals what earlier versions stored in the clear. A host with another key
// does not start when it cannot open a topic or shard. One that started before there were secrets stores none, and
// keeps topics that it cannot open as Locked: pushes are accepted, callbacks are left to other hosts.
//
// # The schema
//
// Open refuses a schema that is newer than the binary (ErrSchemaNewer), and an older one (ErrSchemaOlder) unless
// Options.Migrate lets it migrate; see package migrations for several hosts that migrate at once. A process that
// started without the database completes its start in Run. Nothing else migrates.
package registry
