package chaos

import (
	"bufio"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"sync"
	"time"
)

// Kinds of events.
const (
	evPush    = "push"
	evChange  = "change"
	evRun     = "run"
	evDelete  = "delete"
	evRedrive = "redrive"
	evCall    = "call"   // a callback has arrived at the endpoint, or a worker has leased a job
	evAnswer  = "answer" // a call was answered, or aborted
	evFault   = "fault"
	evDead    = "dead" // seen as dead at the end
)

// Results of a request.
const (
	acknowledged = "acknowledged"
	refused      = "refused" // an answer that means: nothing was changed (4xx)
	unknown      = "unknown" // no answer, or an ambiguous one
)

// Results of a call, as far as the endpoint knows.
const (
	good  = "good"  // answered 200
	bad   = "bad"   // answered with a failure, or aborted before an answer
	maybe = "maybe" // 200, but aborted in its body
)

// event is a line of the record. Times are milliseconds of the test's clock, which is Redis's.
type event struct {
	Kind    string  `json:"kind"`
	At      float64 `json:"at"` // when a request was sent, a call arrived or was answered, a fault began
	Topic   string  `json:"topic,omitempty"`
	ID      string  `json:"id,omitempty"`
	Host    int     `json:"host,omitempty"` // 1 or 2
	End     float64 `json:"end,omitempty"`  // when a request was answered; when a fault was over
	Status  int     `json:"status,omitempty"`
	Error   string  `json:"error,omitempty"`
	Result  string  `json:"result,omitempty"`
	DelayMS float64 `json:"delay_ms,omitempty"`
	SetsDue bool    `json:"sets_due,omitempty"`
	Body    string  `json:"body,omitempty"` // a digest of it
	Call    int     `json:"call,omitempty"` // joins an answer to its call
	Attempt int     `json:"attempt,omitempty"`
	DueAt   float64 `json:"due_at,omitempty"` // from the call's header, or of the worker's job
	Shard   string  `json:"shard,omitempty"`  // of a worker's lease
	Held    float64 `json:"held,omitempty"`   // until when no other worker may lease the job
	Fault   string  `json:"fault,omitempty"`
	Calm    float64 `json:"calm,omitempty"` // of a fault: when calls flowed again, after End
}

func (e event) isSpooled() bool { return e.Kind == evPush && e.Status == http.StatusAccepted }

func (e event) key() string { return e.Topic + "/" + e.ID }

// recorder keeps the record.
type recorder struct {
	mu     sync.Mutex
	events []event
}

func (r *recorder) add(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// write writes the record, a line for each event.
func (r *recorder) write(file string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(f)
	lines := json.NewEncoder(out)
	for _, e := range r.events {
		err = errors.Join(err, lines.Encode(e))
	}
	return errors.Join(err, out.Flush(), f.Close())
}

var epoch = time.Now()

// now returns the time in milliseconds; monotonic, so that a step of this machine's clock does not distort the record.
func now() float64 { return ms(time.Now()) }

func ms(t time.Time) float64 {
	return float64(epoch.UnixMicro()+t.Sub(epoch).Microseconds()) / 1000
}
