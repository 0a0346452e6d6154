package activity

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/wakecall/wakecall/queue"
)

// Attempt is one call.
type Attempt struct {
	Topic     string  `json:"-"`
	ID        string  `json:"id"`
	N         int     `json:"n"`
	Shard     string  `json:"shard"`
	StartedAt int64   `json:"started_at"` // Unix milliseconds, Redis's clock
	TookMS    float64 `json:"took_ms"`
	LateMS    float64 `json:"late_ms"` // from when it was due
	Status    int     `json:"status,omitempty"`
	Outcome   string  `json:"outcome"` // done, retry, snooze, dead, expired
	Reason    string  `json:"reason,omitempty"`
	Error     string  `json:"error,omitempty"`
	Answer    string  `json:"answer,omitempty"` // the first 2 KiB

	Priority queue.Priority `json:"-"`
	First    bool           `json:"-"` // no attempt came before it, so its lateness is the system's
	Called   bool           `json:"-"` // the endpoint was called
}

// Sink is where a dispatcher's notes of one shard go.
type Sink interface {
	Note(ctx context.Context, bucket int, n queue.Notes) error
}

// Recorder gathers attempts. Its methods may be called from any goroutine.
type Recorder struct {
	log  *slog.Logger
	some chan struct{} // ticks when something is gathered where there was nothing

	mu      sync.Mutex
	pending map[place]*gathered
}

type place struct {
	sink   Sink
	bucket int
}

type gathered struct {
	reserved [3]int64
	topics   map[string]*topicGathered
}

type topicGathered struct {
	good, bad []Attempt // the last ones, as rings
	nGood     int
	nBad      int
	errors    map[string]*queue.ErrorNote
	lateness  [queue.LatenessBuckets]int64
}

// What one second's notes hold at most, so that a flood of calls costs no more than a stream of them.
const (
	maxTopics = 2000
	maxGood   = 20
	maxBad    = 40
	maxKinds  = 30
	maxAnswer = 2048
)

// New makes a recorder; Run brings what it gathers to Redis.
func New(log *slog.Logger) *Recorder {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Recorder{log: log, pending: map[place]*gathered{}, some: make(chan struct{}, 1)}
}

// Record takes in what came of a batch of jobs of one bucket.
func (r *Recorder) Record(sink Sink, bucket int, batch []Attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.pending) == 0 {
		select {
		case r.some <- struct{}{}:
		default:
		}
	}
	p := place{sink, bucket}
	g := r.pending[p]
	if g == nil {
		g = &gathered{topics: map[string]*topicGathered{}}
		r.pending[p] = g
	}
	for i := range batch {
		g.add(&batch[i])
	}
}

func (g *gathered) add(a *Attempt) {
	if int(a.Priority) < len(g.reserved) {
		g.reserved[a.Priority]++
	}
	t := g.topics[a.Topic]
	if t == nil {
		if len(g.topics) >= maxTopics {
			return
		}
		t = &topicGathered{}
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
	t.note(a)
}

func ring(list []Attempt, size, n int, a *Attempt) ([]Attempt, int) {
	if len(list) < size {
		return append(list, *a), n + 1
	}
	list[n%size] = *a
	return list, n + 1
}

func (t *topicGathered) note(a *Attempt) {
	text := a.Error
	if text == "" {
		text = a.Reason
	}
	print := Fingerprint(text)
	if t.errors == nil {
		t.errors = map[string]*queue.ErrorNote{}
	}
	e := t.errors[print]
	if e == nil {
		if len(t.errors) >= maxKinds {
			return
		}
		e = &queue.ErrorNote{Fingerprint: print}
		t.errors[print] = e
	}
	e.N++
	e.Example = text
}

const every = time.Second

// Run brings what was gathered to Redis, once a second at most, until ctx is done, and then a last time.
func (r *Recorder) Run(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-r.some:
			select {
			case <-ctx.Done():
			case <-time.After(every):
				r.flush(ctx)
			}
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), every)
	defer cancel()
	r.flush(last)
}

// flush writes what was gathered. What a shard does not take is forgotten: it is for looking at, and memory is bounded.
func (r *Recorder) flush(ctx context.Context) {
	r.mu.Lock()
	all := r.pending
	r.pending = map[place]*gathered{}
	r.mu.Unlock()
	for p, g := range all {
		if err := p.sink.Note(ctx, p.bucket, g.notes()); err != nil {
			r.log.Debug("what happened to calls could not be noted", "error", err)
		}
	}
}

func (g *gathered) notes() queue.Notes {
	n := queue.Notes{Reserved: g.reserved}
	for name, t := range g.topics {
		n.Topics = append(n.Topics, t.notes(name))
	}
	return n
}

func (t *topicGathered) notes(name string) queue.TopicNotes {
	n := queue.TopicNotes{Topic: name, Lateness: t.lateness[:]}
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
