package ledger

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"
)

// Kinds of events.
const (
	Push    = "push"
	Change  = "change"
	Run     = "run"
	Delete  = "delete"
	Redrive = "redrive"
	Call    = "call"   // a callback has arrived at the endpoint, or a worker has leased a job
	Answer  = "answer" // a call was answered, or aborted
	Fault   = "fault"
	Dead    = "dead" // seen as dead at the end
)

// Results of a request.
const (
	Acknowledged = "acknowledged"
	Refused      = "refused" // an answer that means: nothing was changed (4xx)
	Unknown      = "unknown" // no answer, or an ambiguous one
)

// Results of a call, as far as the endpoint knows.
const (
	Good  = "good"  // answered 200
	Bad   = "bad"   // answered with a failure, or aborted before an answer
	Maybe = "maybe" // 200, but aborted in its body
)

// Event is a line of the ledger. Times are milliseconds of the test's clock, which is Redis's.
type Event struct {
	Kind     string  `json:"kind"`
	At       float64 `json:"at"` // when a request was sent, a call arrived or was answered, a fault began
	Topic    string  `json:"topic,omitempty"`
	ID       string  `json:"id,omitempty"`
	Host     int     `json:"host,omitempty"` // 1 or 2
	End      float64 `json:"end,omitempty"`  // when a request was answered; when a fault was over
	Status   int     `json:"status,omitempty"`
	Error    string  `json:"error,omitempty"`
	Result   string  `json:"result,omitempty"`
	DelayMS  float64 `json:"delay_ms,omitempty"`
	SetsDue  bool    `json:"sets_due,omitempty"`
	Body     string  `json:"body,omitempty"`  // a digest of it
	Match    string  `json:"match,omitempty"` // If-Match of a change
	ETag     string  `json:"etag,omitempty"`  // of the job after it
	Call     int     `json:"call,omitempty"`  // joins an answer to its call
	Attempt  int     `json:"attempt,omitempty"`
	DueAt    float64 `json:"due_at,omitempty"`   // from the call's header, or of the worker's job
	Shard    string  `json:"shard,omitempty"`    // of a worker's lease
	Held     float64 `json:"held,omitempty"`     // until when no other worker may lease the job
	Immortal bool    `json:"immortal,omitempty"` // dead, although jobs of its topic always have attempts left
	Fault    string  `json:"fault,omitempty"`
	Calm     float64 `json:"calm,omitempty"` // of a fault: when calls flowed again, after End
}

func (e Event) isSpooled() bool { return e.Kind == Push && e.Status == http.StatusAccepted }

// Key names the job.
func (e Event) Key() string { return e.Topic + "/" + e.ID }

// Ledger keeps the events.
type Ledger struct {
	mu     sync.Mutex
	events []Event
}

// Add adds events.
func (l *Ledger) Add(events ...Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, events...)
}

// Events returns the events so far.
func (l *Ledger) Events() []Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.events)
}

// Write writes the events to a file, each on a line.
func (l *Ledger) Write(file string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(f)
	lines := json.NewEncoder(out)
	for _, e := range l.events {
		err = errors.Join(err, lines.Encode(e))
	}
	return errors.Join(err, out.Flush(), f.Close())
}

// ResultOf returns the result of a request.
func ResultOf(status int, err error) string {
	switch {
	case err != nil || status >= 500: // a 5xx does not say whether it took effect
		return Unknown
	case status >= 400:
		return Refused
	}
	return Acknowledged
}

// Digest returns a short digest of a body.
func Digest(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:6])
}

// DigestJSON returns the digest of a value's JSON.
func DigestJSON(v any) string {
	body, _ := json.Marshal(v) // a request with what cannot be marshalled fails
	return Digest(body)
}

var epoch = time.Now()

// Now returns the time in milliseconds; monotonic, so that a step of this machine's clock does not distort the record.
func Now() float64 { return MS(time.Now()) }

// MS returns a time as the ledger has it.
func MS(t time.Time) float64 {
	return float64(epoch.UnixMicro()+t.Sub(epoch).Microseconds()) / 1000
}
