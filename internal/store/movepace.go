package store

import (
	"time"
)

// A draining shard delivers jobs that are due, and its other jobs are moved to active shards. A job is first stored in
// the other shard, with its attempts and for the same time, and then removed here if nothing has happened to it
// meanwhile; otherwise the copy is removed. So the job always exists. It is not called twice, because only jobs are
// moved that neither shard would call before both steps are done; jobs that stay ready for long are postponed first.
// One process at a time moves jobs. A process that was suspended in the middle stores nothing afterwards, since a shard
// refuses copies that come late: their jobs may have been delivered. A job is called twice when the process ends
// between the two steps and no other takes over within MovePace.Ahead.

// MovePace holds the limits of time for moving.
type MovePace struct {
	Ahead  time.Duration // only jobs that are due later than this are moved
	Within time.Duration // a copy that comes later is refused; half of Ahead
	PutOff time.Duration // how long a stuck job is postponed; more than Ahead
	Stuck  time.Duration // a ready job is stuck when no dispatcher has taken it for so long
}

// DefaultPace moves jobs as production does.
var DefaultPace = MovePace{
	Ahead: 10 * time.Second, Within: 5 * time.Second, PutOff: 20 * time.Second, Stuck: 30 * time.Second,
}
