package store

import "time"

// Every accepted change of a job takes the next revision of its bucket, a counter in the data (the key rev),
// which the journal's line of the change records. Of two changes of a job, through any hosts, the later one has the
// higher revision.

// ChangeKind is the kind of an accepted change, for Options.Changed.
type ChangeKind string

// The kinds of changes. A job that was changed, made due, redriven or moved in has all fields; the others have Topic,
// ID, Shard, CreatedAt and Revision; a cleared topic has Topic, Shard and Revision.
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

// GroupChange is a change of a whole group in one bucket.
type GroupChange struct {
	Group    string
	Topics   string // patterns, separated by spaces: only jobs of these topics
	Shard    string
	Bucket   int
	Revision int64
	Until    time.Time // closed until then; zero: the jobs up to the revision that wait or are dead were deleted
	Via, By  string
}

// ScheduleChange is a schedule's state in its bucket after a change of its cursor.
type ScheduleChange struct {
	Name, Topic, Shard string
	Bucket             int
	Rev                int64 // of the definition; 0: the schedule was removed
	At                 time.Time
	Last               []Occurrence // the newest one, if any
	LeftOut            map[string]int
	Revision           int64
}
