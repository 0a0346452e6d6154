// Package recovery compares what the journal says was accepted with what the shards hold, and puts right what a shard has forgotten.
//
// A Redis can forget: the last second of its append-only file (or more, when the disk was slow), what a replica that became the master had
// not got yet, or everything. What it forgot may be a push, which is lost without recovery; a change; or the end of a job, which then
// lives again. The journal's lines name each job by topic, id and the time of its creation, so that an id that was used again is not mistaken
// for the job before it.
//
//	the journal says     the shards hold              what is done
//	accepted             nothing, or an older job     pushed again, under its id and due time (attempts begin anew)
//	accepted             the job, changed otherwise   changed again
//	deleted              the job                      deleted again
//	delivered            the job, not running         deleted: it was called
//	dead                 nothing                      counted: it was called as often as it should have been
//
// Recover does that for a stretch of time, in bounded memory. A Keeper watches the shards and does it when another server answers than the
// one that this host's journal was compared with last, see queue.Check.
package recovery
