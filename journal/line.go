package journal

import "time"

// Op is what a request did.
type Op string

// The operations of request lines.
const (
	OpPush    Op = "push"
	OpReplace Op = "replace" // a push that replaced the job of the same id
	OpChange  Op = "change"
	// OpDuplicate is a push whose id already existed: the job as it was then. It may be the only line of that job, if
	// writing the line of the first push failed.
	OpDuplicate Op = "duplicate"
	OpDelete    Op = "delete"
	OpRun       Op = "run"     // made due now
	OpRedrive   Op = "redrive" // dead jobs made ready again
	OpDrop      Op = "drop"    // dead jobs deleted
	OpClear     Op = "clear"   // all jobs of a topic deleted
	OpMove      Op = "move"    // stored in another shard, as it was then
	OpLeave     Op = "leave"   // removed from a shard, since another one has the job
	OpSpool     Op = "spool"   // a push taken while no shard was up; an OpPush follows when a shard has it
)

// Outcome is what came of an attempt.
type Outcome string

// The outcomes of notify lines.
const (
	Done    Outcome = "done"
	Retry   Outcome = "retry"
	Snooze  Outcome = "snooze"
	Dead    Outcome = "dead"
	Expired Outcome = "expired"
	Lost    Outcome = "lost" // the lease expired, so the result was ignored
)

// RequestLine is one accepted request. Zero fields are left out of the line.
type RequestLine struct {
	TS          time.Time // zero: the time of the write; in milliseconds
	Op          Op
	Topic       string
	ID          string // empty where the operation concerns several jobs
	Shard       string
	Revision    int64     // of the change in the shard, see queue.Job; 0 of lines that older versions wrote
	DueAt       time.Time // in milliseconds
	CreatedAt   time.Time // by Redis's clock; with topic and id it names one job, also when the id is used again
	ChangedAt   time.Time // of change and run; by Redis's clock, since hosts' clocks differ
	Priority    string
	TTR         time.Duration
	MaxAttempts int
	ContentType string
	ExpiresAt   time.Time         // by Redis's clock; in milliseconds
	TTL         time.Duration     // of spool without an ExpiresAt: from TS on, by the host's clock
	Headers     map[string]string // of the job
	Retry       []time.Duration   // waits of the job, in milliseconds
	Body        []byte            // byte for byte; nil: none, or unchanged
	Count       int               // of redrive, drop and clear: how many jobs
	OnDuplicate string            // of spool: keep or replace
	Via         string            // the protocol in which the request came; empty: the API
	Delay       time.Duration     // of spool without a DueAt: from TS on, by the host's clock
}

// AttemptLine is one attempt, or the end of a job without one.
type AttemptLine struct {
	TS        time.Time // zero: the time of the write; in milliseconds
	Topic     string
	ID        string
	CreatedAt time.Time // as in the job's RequestLine
	N         int       // the attempt, from 1
	StartedAt time.Time // milliseconds are kept
	Took      time.Duration
	Status    int
	Outcome   Outcome
	Reason    string
	Error     string
	Shard     string
	Revision  int64  // of a job's death, of a delivery's reservation, and of every end of a worker's lease
	Result    string // JSON: what the worker who acked says
	Process   string // empty: Options.Process
}

// ErrorLine is something that went wrong.
type ErrorLine struct {
	TS      time.Time // zero: the time of the write; in milliseconds
	Process string    // empty: Options.Process
	Where   string    // the part that failed
	Error   string
	Context string // what it concerned, such as "topic=shop.close id=42"
}
