// Package reconcile makes the journals and Redis agree: it recovers writes that a Redis has lost, from the journals of
// the hosts.
//
// A Redis can lose its latest writes: the last second of its append-only file (or more, when the disk was slow), writes
// that a promoted replica had not received, or everything. Every change of a job has a revision, a counter in the data
// of its bucket, and a line in the journal of the host that accepted it. So the history of a job is its lines, on all
// hosts, in the order of their revisions, and the lost changes are the lines with revisions above the one in the data.
//
// A server that is new to a shard refuses requests until it has been compared (see compare.go). Each
// host's Reconciler replays the missing lines, in any order and concurrently with the others: for each job the highest
// revision decides. Every process of the host has a Reconciler, of which one works.
//
//	line of the journal                 what replaying it does
//	push, replace, change, run, move,
//	redrive, snapshot                   the job is stored as in the line, in place of an older content
//	delete, drop, leave                 the job is removed
//	clear                               the topic's jobs up to that revision are removed
//	delivered                           the job is removed, unless it was changed since it was reserved
//	schedule                            the schedule has that state, or is removed
//	dead                                the job is dead, with its last attempt
//
// No clock is involved, neither to order lines nor to find where to begin to read: each host stores in the data how far
// its journal reached (journal.Position), and as long as the data has that position, it has the changes before it.
//
// Recover does the same by hand, for journals that an operator names. A Recorder writes the lines of accepted changes:
// no other package makes request lines. A Spool stores pushes that no shard could accept.
package reconcile
