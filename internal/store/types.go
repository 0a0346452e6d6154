package store

import (
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"
)

// State is a job's state.
type State string

// The states of a job. A deleted job has none, and a delivered job has one only while it is remembered.
const (
	Delayed  State = "delayed" // waiting for its due time or its retry time
	Ready    State = "ready"   // due, waiting for a dispatcher or a worker
	Running  State = "running" // reserved under a lease
	Dead     State = "dead"    // out of attempts, stored until somebody re-drives or deletes it
	Finished State = "done"    // delivered and remembered (see finished.go)
	Spooled  State = "spooled" // in no shard yet: accepted while no shard was up
)

// OnDuplicate says what a push does when its id already exists.
type OnDuplicate uint8

// The reactions to a push whose id already exists.
const (
	Keep    OnDuplicate = iota // answer with the existing job
	Replace                    // new body and due time, attempts start again
	Refuse                     // ErrDuplicate
)

// Push is a job to be stored.
type Push struct {
	Topic       string
	ID          string // set by the caller; NewID makes one
	Body        []byte
	ContentType string        // empty: application/json
	Delay       time.Duration // counted from Redis's clock when the push arrives there
	DueAt       time.Time     // replaces Delay when not zero; the past means now
	Priority    Priority
	Order       *uint32           // see Job
	TTR         time.Duration     // 0: the topic's
	MaxAttempts int               // 0: the topic's
	TTL         time.Duration     // the job expires so long after the push; 0: never
	ExpiresAt   time.Time         // replaces TTL when not zero
	Headers     map[string]string // the job's own
	Retry       []time.Duration   // waits between attempts, MaxWaits at most; the last repeats. nil: the topic's
	Group       string            // which can be cancelled together; empty: none
	Traceparent string            // the trace context of the push, see ParseTraceparent; empty: none
	Key         string            // of which a topic calls some at a time, see KeyConf; empty: none
	URL         string            // called instead of the topic's, see registry.Topic.JobURL; empty: the topic's
	Quota       string            // tokens whose quotas of waiting jobs it counts for, joined with commas; empty: none
	Schedule    string            // of which it is an occurrence, at For; empty: of none
	For         time.Time
	Awaited     bool // somebody waits for its end, see Answer
	OnDuplicate OnDuplicate
	Again       bool   // a finished job of the id does not count as a duplicate
	Fresh       bool   // NewID has just made the ID, so no shard can have it yet
	Via         string // for the journal: the protocol of the request, set from the context (see Via)
}

// TypeOf returns the content type of a body that came without one. That of JSON is "" and takes no space in the record;
// the other adds a quarter to a small job.
func TypeOf(body []byte) string {
	if utf8.Valid(body) && json.Valid(body) {
		return ""
	}
	return "application/octet-stream"
}

// Job is a stored job.
type Job struct {
	Topic       string
	ID          string
	Shard       string // the shard that holds it
	State       State
	Body        []byte
	ContentType string // empty: application/json
	Priority    Priority
	Order       *uint32       // due jobs of a topic are taken by it, then by their ids, then those without one (nil)
	TTR         time.Duration // 0: the topic's
	MaxAttempts int           // 0: the topic's
	ExpiresAt   time.Time     // zero: it does not expire
	Headers     map[string]string
	Retry       []time.Duration // nil: the topic's
	Group       string          // empty: none
	Traceparent string          // of its push; empty: none
	Key         string          // empty: none
	URL         string          // empty: the topic's
	Quota       string          // empty: none
	Schedule    string          // empty: none
	For         time.Time       // the nominal time of the occurrence
	Awaited     bool            // as in Push
	Answer      *Answer         // of a finished job that was awaited, for two minutes
	CreatedAt   time.Time
	ChangedAt   time.Time // by the shard's clock; only of a job that Change or RunNow returns
	Revision    int64     // of the change that returns the job (see changes.go); 0 if it was only read
	DueAt       time.Time // as pushed or changed; retries do not move it
	NextAt      time.Time // when a delayed job becomes ready (DueAt, or its retry time); zero in other states
	LeaseUntil  time.Time // of a running job
	Lease       *Lease    // of a job that was just reserved or taken; Attempts are those before this one
	DeadAt      time.Time // of a dead job
	DeadReason  string    // of a dead job: attempts, gone, expired, lease, …
	Attempts    int       // number made so far
	Snoozes     int       // in a row, since the last attempt that counted
	History     []Attempt // the last HistoryLimit attempts, oldest first
	Via         string    // of a changed job, for the journal: as in Push
	By          string    // of a changed job, for the journal: who changed it (see By)
	ETag        string    // changes with every change of the job
	FinishedAt  time.Time // of a finished job
	BodyGone    bool      // of a finished job: its body was too long to be remembered
}

// HistoryLimit is the most attempts in a job's history.
const HistoryLimit = 20

// Attempt is the outcome of one callback. Its JSON form is both the API's and the stored one.
type Attempt struct {
	N         int     `json:"n"`
	StartedAt int64   `json:"started_at"` // Unix milliseconds; the API shows RFC 3339
	TookMS    float64 `json:"took_ms"`
	Status    int     `json:"status,omitempty"` // HTTP status; 0 without an answer
	Error     string  `json:"error,omitempty"`
	Answer    string  `json:"answer,omitempty"` // the beginning of the answer's body
}

// Result is the outcome of one push.
type Result struct {
	Job       Job  // without Body and ContentType if the push itself was stored
	Duplicate bool // the id already existed; Job is the existing job (Keep) or what replaced it (Replace)
	Err       error
}

// Change is an edit of a delayed or ready job; nil fields stay as they are.
type Change struct {
	DueAt    *time.Time
	Delay    *time.Duration
	Priority *Priority
	URL      *string // empty: the topic's
	Body     *[]byte
	Match    Match
}

// Match is a condition of a change: the job must have one of these ETags. nil: any ETag.
type Match []string

func (m Match) String() string {
	if m == nil {
		return ""
	}
	return " " + strings.Join(m, " ") // not empty even without ETags, so that nothing matches then
}

// Stats holds the counts of one topic.
type Stats struct {
	Delayed, Ready, Running, Dead int64
	High                          int64         // ready jobs of priority high
	OldestReady                   time.Duration // how long the oldest ready job has been due; 0 without one
}

// Jobs returns the number of jobs in all states.
func (st Stats) Jobs() int64 { return st.Delayed + st.Ready + st.Running + st.Dead }

// Add adds the counts of other jobs.
func (st *Stats) Add(o Stats) {
	st.Delayed += o.Delayed
	st.Ready += o.Ready
	st.Running += o.Running
	st.Dead += o.Dead
	st.High += o.High
	st.OldestReady = max(st.OldestReady, o.OldestReady)
}

// Of returns the count of a state.
func (st Stats) Of(state State) int64 {
	return map[State]int64{Delayed: st.Delayed, Ready: st.Ready, Running: st.Running, Dead: st.Dead}[state]
}

// Errors of single jobs. Each is wrapped with the topic and the id.
var (
	ErrNotFound  = errors.New("no such job")
	ErrRunning   = errors.New("the job is running")
	ErrDuplicate = errors.New("the id already exists")
	ErrDead      = errors.New("the job is dead")
	ErrChanged   = errors.New("the job was changed meanwhile") // it has none of the ETags of a Match
	ErrCursor    = errors.New("the cursor is not one that a list gave")
	ErrClosed    = errors.New("the group is closed")
	// ErrTooFar is the error of a due time beyond MaxDelay.
	ErrTooFar = errors.New("the due time is too far ahead")
	// ErrExpires is the error of a due time at which the job would have expired.
	ErrExpires = errors.New("the job would expire before it is due")
)

// MaxDelay is how far ahead a due time may be.
const MaxDelay = 10 * 365 * 24 * time.Hour

// UnavailableError is the error of a request that no shard accepted or answered. It may have been carried out.
type UnavailableError struct {
	Reason     string // down, full (Redis out of memory), readonly, …
	RetryAfter time.Duration
	Err        error
	Stored     bool // it was carried out, but no replica has confirmed it yet
	unanswered bool // it may have been carried out
}

func (e *UnavailableError) Error() string {
	if e.Stored {
		return e.Err.Error()
	}
	return "no shard is available: " + e.Reason + ": " + e.Err.Error()
}

func (e *UnavailableError) Unwrap() error { return e.Err }

// LevelOf returns the level at which to log an error of a shard: at every start shards wait to be compared with the
// hosts' journals, which is normal.
func LevelOf(err error) slog.Level {
	var un *UnavailableError
	if errors.As(err, &un) && un.Reason == ReasonComparing {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}
