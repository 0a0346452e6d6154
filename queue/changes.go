package queue

import (
	"context"
	"time"
)

// Every accepted change of a job takes the next revision of its bucket, a counter in the data (revise in
// lua/shared/base.lua), and the journal's line of the change has it: of two changes of a job, through whatever hosts,
// the later one has the higher revision.

// ChangeKind says what an accepted change did to jobs, for Options.Changed.
type ChangeKind string

// The kinds of changes. Of a changed job, and one that was made due, redriven or moved in, everything is known; of the
// others Topic, ID, Shard, CreatedAt and Revision; of a cleared topic all but ID and CreatedAt.
const (
	Changed     ChangeKind = "change"
	MadeDue     ChangeKind = "run"
	Deleted     ChangeKind = "delete"
	Redriven    ChangeKind = "redrive"
	DeadDeleted ChangeKind = "drop"
	Cleared     ChangeKind = "clear" // all jobs of a topic were deleted
	MovedIn     ChangeKind = "move"  // from another shard, see Drain
	MovedOut    ChangeKind = "leave"
)

// record has a change recorded. What is not recorded is not confirmed.
func (q *Queue) record(ctx context.Context, kind ChangeKind, jobs ...Job) error {
	if len(jobs) == 0 || q.opts.Changed == nil {
		return nil
	}
	via := viaOf(ctx)
	for i := range jobs {
		jobs[i].Via = via
	}
	if err := q.opts.Changed(kind, jobs); err != nil {
		return &UnavailableError{Reason: "journal", RetryAfter: time.Second, Err: err}
	}
	return nil
}
