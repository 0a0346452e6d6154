// Package recovery brings back what a Redis has lost, from the journals of the hosts.
//
// A Redis can lose its latest writes: the last second of its append-only file (or more, when the disk was slow), what a
// replica that became the master had not received, or everything. Every change of a job has a revision, a counter in
// the data of its bucket, and a line in the journal of the host that accepted it. So the history of a job is its lines,
// on all hosts, in the order of their revisions, and what was lost are the lines with revisions above the one that the
// data holds.
//
// A server that comes new to a shard answers nothing until it has been compared (see queue/shards_compare.go). Each
// host's Keeper replays the lines that are missing there, in any order and at the same time as the others: of a job the
// highest revision decides.
//
//	line of the journal                 what replaying it does
//	push, replace, change, run, move,
//	redrive                             the job is stored as the line has it, in place of an older content
//	delete, drop, leave, clear          the job is removed
//	delivered                           the job is removed, unless it was changed since it was reserved
//	dead                                the job is dead, with its last attempt
//
// No clock is asked, neither to order lines nor to find where to begin to read: each host notes in the data how far its
// journal reached (journal.Position), and what was written before that note is in the data as long as the note is.
//
// Recover does the same by hand, for journals that an operator names. A Spool keeps pushes that no shard could take.
package recovery
