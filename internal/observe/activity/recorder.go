package activity

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/store"
)

// Attempt is one attempt to deliver a job.
type Attempt struct {
	Topic     string  `json:"-"`
	ID        string  `json:"id"`
	N         int     `json:"n"`
	Shard     string  `json:"shard"`
	StartedAt int64   `json:"started_at"` // Unix milliseconds, Redis's clock
	TookMS    float64 `json:"took_ms"`
	LateMS    float64 `json:"late_ms"` // since its due time
	Status    int     `json:"status,omitempty"`
	Outcome   string  `json:"outcome"` // done, retry, snooze, dead, expired
	Reason    string  `json:"reason,omitempty"`
	Error     string  `json:"error,omitempty"`
	Answer    string  `json:"answer,omitempty"` // the first 2 KiB

	Priority store.Priority `json:"-"`
	First    bool           `json:"-"` // the first attempt, whose lateness is not due to retries
	Called   bool           `json:"-"` // the endpoint was called
}

// Sink stores the notes about one bucket.
type Sink interface {
	Note(ctx context.Context, n observe.Notes) error
}

// Recorder collects attempts. Its methods may be called from any goroutine.
type Recorder struct {
	log  *slog.Logger
	some chan struct{} // receives when pending is no longer empty

	mu      sync.Mutex
	pending map[Sink]*collected
}

type collected struct {
	reserved [3]int64
	topics   map[string]*topicCollected
}

type topicCollected struct {
	good, bad []Attempt // the last successful and failed ones, as rings
	nGood     int
	nBad      int
	errors    map[string]*observe.ErrorNote
	lateness  map[int]int64
}

// Limits of the notes of a second, so that many calls cost no more than a few.
const (
	maxTopics = 2000
	maxGood   = 20
	maxBad    = 40
	maxKinds  = 30
	maxAnswer = 2048
)

// New returns a Recorder; Run writes its notes to Redis.
func New(log *slog.Logger) *Recorder {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	return &Recorder{log: log, pending: map[Sink]*collected{}, some: make(chan struct{}, 1)}
}

// Record adds the attempts of a batch of jobs of one bucket.
func (r *Recorder) Record(sink Sink, batch []Attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.pending) == 0 {
		select {
		case r.some <- struct{}{}:
		default:
		}
	}
	g := r.pending[sink]
	if g == nil {
		g = &collected{topics: map[string]*topicCollected{}}
		r.pending[sink] = g
	}
	for i := range batch {
		g.add(&batch[i])
	}
}

func (g *collected) add(a *Attempt) {
	if int(a.Priority) < len(g.reserved) {
		g.reserved[a.Priority]++
	}
	t := g.topics[a.Topic]
	if t == nil {
		if len(g.topics) >= maxTopics {
			return
		}
		t = &topicCollected{errors: map[string]*observe.ErrorNote{}, lateness: map[int]int64{}}
		g.topics[a.Topic] = t
	}
	if a.First && a.Called {
		t.lateness[bucketOf(a.LateMS)]++
	}
	if a.Outcome == "done" || a.Outcome == "snooze" {
		t.good, t.nGood = ring(t.good, maxGood, t.nGood, a)
		return
	}
	t.bad, t.nBad = ring(t.bad, maxBad, t.nBad, a)
	t.addError(a)
}

func ring(list []Attempt, size, n int, a *Attempt) ([]Attempt, int) {
	if len(list) < size {
		return append(list, *a), n + 1
	}
	list[n%size] = *a
	return list, n + 1
}

func (t *topicCollected) addError(a *Attempt) {
	text := cmp.Or(a.Error, a.Reason)
	print := Fingerprint(text)
	e := t.errors[print]
	if e == nil {
		if len(t.errors) >= maxKinds {
			return
		}
		e = &observe.ErrorNote{Fingerprint: print}
		t.errors[print] = e
	}
	e.N++
	e.Example = text
}

const flushEvery = time.Second

// Run writes the collected notes to Redis, at most once a second until ctx is done, and then one last time.
func (r *Recorder) Run(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-r.some:
			select {
			case <-ctx.Done():
			case <-time.After(flushEvery):
				r.flush(ctx)
			}
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushEvery)
	defer cancel()
	r.flush(last)
}

// flush writes the collected notes. Notes that a shard does not accept are lost, because memory is bounded and no job
// depends on them.
func (r *Recorder) flush(ctx context.Context) {
	r.mu.Lock()
	all := r.pending
	r.pending = map[Sink]*collected{}
	r.mu.Unlock()
	for sink, g := range all {
		if err := sink.Note(ctx, g.notes()); err != nil {
			r.log.Debug("write activity of callbacks", "error", err)
		}
	}
}

func (g *collected) notes() observe.Notes {
	n := observe.Notes{Reserved: g.reserved}
	for name, t := range g.topics {
		n.Topics = append(n.Topics, t.notes(name))
	}
	return n
}

func (t *topicCollected) notes(name string) observe.TopicNotes {
	n := observe.TopicNotes{Topic: name, Lateness: t.lateness}
	for _, a := range inOrder(t.good, t.bad) {
		a.Answer = clip(a.Answer, maxAnswer)
		b, err := json.Marshal(a)
		if err == nil {
			n.Attempts = append(n.Attempts, b)
		}
	}
	for _, e := range t.errors {
		n.Errors = append(n.Errors, *e)
	}
	return n
}
