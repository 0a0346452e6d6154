package journal

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Op is the operation of a request.
type Op string

// The operations of request lines.
const (
	OpPush    Op = "push"
	OpReplace Op = "replace" // a push that replaced the job of the same id
	OpChange  Op = "change"
	// OpDuplicate is a push whose id already existed; the line has the job as it was then. It may be the only line of
	// that job, if the line of the first push could not be written.
	OpDuplicate Op = "duplicate"
	OpDelete    Op = "delete"
	OpRun       Op = "run"      // made due now
	OpRedrive   Op = "redrive"  // dead jobs made ready again
	OpDrop      Op = "drop"     // dead jobs deleted
	OpClear     Op = "clear"    // all jobs of a topic deleted
	OpMove      Op = "move"     // stored in another shard, as it was then
	OpLeave     Op = "leave"    // removed from a shard, since another one has the job
	OpCancel    Op = "cancel"   // the waiting and dead jobs of a group deleted that belong to Topics, in one bucket
	OpClose     Op = "close"    // a group closed for Topics until DueAt, in one bucket
	OpSnapshot  Op = "snapshot" // a job as a backup found it
	OpSchedule  Op = "schedule" // the state of a schedule after a change, in one bucket
	OpSpool     Op = "spool"    // a push accepted while no shard was up; an OpPush follows when a shard has it
)

// Outcome is the result of an attempt.
type Outcome string

// The outcomes of notify lines.
const (
	Done    Outcome = "done"
	Retry   Outcome = "retry"
	Snooze  Outcome = "snooze"
	Dead    Outcome = "dead"
	Expired Outcome = "expired"
)

// RequestLine is one accepted request. The line omits zero fields.
type RequestLine struct {
	TS          time.Time // zero: the time of the write; in milliseconds
	Op          Op
	Topic       string
	ID          string // empty if the operation concerns several jobs
	Shard       string
	Revision    int64     // of the change in the shard, see queue.Job
	DueAt       time.Time // in milliseconds
	CreatedAt   time.Time // by Redis's clock; identifies one job with topic and id, even if the id is reused
	ChangedAt   time.Time // of change and run; by Redis's clock, since hosts' clocks differ
	Priority    string
	Order       *uint32
	TTR         time.Duration
	MaxAttempts int
	ContentType string
	ExpiresAt   time.Time         // by Redis's clock; in milliseconds
	TTL         time.Duration     // of spool without ExpiresAt: from TS on, by the host's clock
	Headers     map[string]string // of the job
	Retry       []time.Duration   // waits of the job, in milliseconds
	Group       string            // of the job
	Traceparent string            // of the push
	Key         string            // of the job
	URL         string            // of the job
	Quota       string            // of the job
	Topics      string            // of cancel and close: patterns, separated by spaces
	Bucket      int               // of cancel, close and schedule
	Schedule    string            // of an occurrence and of schedule: the schedule's name
	For         time.Time         // nominal time of the occurrence; of schedule: all up to it are decided
	Definition  int64             // of schedule: the definition's revision; 0: the schedule was removed
	Awaited     bool              // somebody waits for the job's end
	Last        jsontext.Value    // of schedule: its last occurrences as JSON
	LeftOut     map[string]int    // of schedule: how many were left out, by reason
	Body        []byte            // byte for byte; nil: none, or unchanged
	Via         string            // the protocol of the request; empty: the API
	By          string            // who changed the job: user/NAME or token:NAME; empty: not recorded
	Delay       time.Duration     // of spool without DueAt: from TS on, by the host's clock
	NextAt      time.Time         // of snapshot: when the job is retried, if that is not DueAt
	Attempts    int               // of snapshot: how many were made
	Snoozes     int               // of snapshot: in a row
	History     jsontext.Value    // of snapshot: the last attempts as JSON
	DeadAt      time.Time         // of snapshot: when the job died; zero: it waits
	DeadReason  string            // of snapshot
}

// AttemptLine is one attempt, or the end of a job without one.
type AttemptLine struct {
	TS        time.Time // zero: the time of the write; in milliseconds
	Topic     string
	ID        string
	CreatedAt time.Time // as in the job's RequestLine
	N         int       // number of the attempt, from 1
	StartedAt time.Time // stored in milliseconds
	Took      time.Duration
	Status    int
	Outcome   Outcome
	Reason    string
	Error     string
	Shard     string
	Revision  int64  // of a job's death, of a delivery's reservation, or of the end of a worker's lease
	Result    string // JSON: the result in a worker's ack
	Answer    string // of the end of a job that was awaited: its result, as store.Answer in JSON
	Schedule  string // of an occurrence that has ended
	For       time.Time
	Process   string // empty: Options.Process
}

// ErrorLine is one error.
type ErrorLine struct {
	TS      time.Time // zero: the time of the write; in milliseconds
	Process string    // empty: Options.Process
	Where   string    // the part that failed
	Error   string
	Context string // what it concerned, such as "topic=shop.close id=42"
}
