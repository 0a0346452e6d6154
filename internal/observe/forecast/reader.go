package forecast

import (
	"context"
	"math"
	"time"

	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/observe/activity"
	"github.com/wakecall/wakecall/internal/observe/history"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
)

// Queue is the part of a queue.Queue that a Reader needs.
type Queue interface {
	Forecast(ctx context.Context, topic string, ahead time.Duration) (observe.Forecast, error)
	TopicLimits(ctx context.Context, topics []string) (map[string]observe.TopicLimits, error)
	Workers(ctx context.Context, topic string) (queue.Workers, error)
}

// History reads series of samples; *history.Reader implements it.
type History interface {
	Series(ctx context.Context, series, span string) (history.Points, error)
}

// Activity reads the recent attempts of a topic; *activity.Reader implements it.
type Activity interface {
	Attempts(ctx context.Context, topic string, limit int) ([]activity.Attempt, error)
}

// Reader reads situations.
type Reader struct {
	Queue    Queue
	History  History
	Activity Activity
	Snapshot func() *registry.Snapshot
}

const (
	// AttemptsRead is how many of a topic's last attempts are read.
	AttemptsRead = 100
	// recently is how old attempts may be that tell whether calls succeed now.
	recently = 30 * time.Second
	// stored is how long after the end of a minute its samples are stored.
	stored = 15 * time.Second
)

// Topic returns the forecast of a topic, and what it follows from. If some shards do not answer, their jobs are missing
// from the numbers.
func (r *Reader) Topic(ctx context.Context, t *registry.Topic) (Answer, *Situation, error) {
	due, err := r.Queue.Forecast(ctx, t.Name, observe.Day)
	if err != nil && !queue.IsPartial(err) {
		return Answer{}, nil, err
	}
	s := &Situation{
		State: t.State, PausedBy: r.Snapshot().Notes.Get(t.Name).PausedBy, Away: err != nil, Due: due,
		Capacity: Capacity{Limit: t.RateLimit, MaxInFlight: t.MaxInFlight, Deliveries: -1},
	}
	attempts, _ := r.Activity.Attempts(ctx, t.Name, AttemptsRead) // on an error: those that could be read
	recent := s.learn(attempts)
	if due.Ready > 0 {
		s.Capacity.Deliveries = r.deliveries(ctx, t, s, recent)
		if err := r.stops(ctx, t, s); err != nil {
			return Answer{}, nil, err
		}
	}
	s.Capacity.Decide()
	return Of(s), s, err
}

// learn computes the mean time of calls and, from the recent ones, the share that succeeded. It returns the number of
// recent ones.
func (s *Situation) learn(attempts []activity.Attempt) (all int) {
	var sum float64
	var good int
	c := &s.Capacity
	for _, at := range attempts {
		if at.TookMS > 0 {
			sum += at.TookMS
			c.Calls++
		}
		if at.Outcome == "expired" || s.Due.Now.Sub(time.UnixMilli(at.StartedAt)) > recently {
			continue
		}
		if all++; at.Outcome == "done" {
			good++
		}
	}
	if c.Share = 1; all > 0 {
		c.Share = float64(good) / float64(all)
	}
	if c.Calls > 0 && c.MaxInFlight > 0 {
		c.Mean = time.Duration(sum / float64(c.Calls) * float64(time.Millisecond))
		c.Flight = float64(c.MaxInFlight) / c.Mean.Seconds()
	}
	return all
}

const (
	changed   = 1.5  // by this factor rates differ
	shareSlip = 0.25 // by this much shares of calls that succeed differ
)

// deliveries returns how many deliveries a second were made in the last whole minute. That minute says what can be done
// if jobs waited and all shards answered for the whole of it, and nothing has changed: the topic, the rate since the
// minute before, or whether calls succeed. Otherwise it returns -1.
func (r *Reader) deliveries(ctx context.Context, t *registry.Topic, s *Situation, recent int) float64 {
	all, allErr := r.History.Series(ctx, history.AllTopics, history.Spans()[0])
	p, err := r.History.Series(ctx, t.Name, history.Spans()[0])
	if err != nil || allErr != nil {
		return -1
	}
	p = p.WithGaps(all)
	i := len(p.Times) - 1
	for i >= 0 && time.Unix(p.Times[i], 0).Add(stored).After(s.Due.Now) {
		i--
	}
	if !s.measures(p, i, t) {
		return -1
	}
	rate, failed := p.Value("delivered", i), p.Value("failed", i)
	if s.measures(p, i-1, t) {
		if before := p.Value("delivered", i-1); max(rate, before) > changed*min(rate, before) {
			return -1
		}
	}
	if recent > 0 && (rate+failed == 0 || math.Abs(rate/(rate+failed)-s.Capacity.Share) > shareSlip) {
		return -1
	}
	return rate
}

// measures reports whether jobs waited, under the topic's present settings, for the whole of a slot without a gap. The
// sample of an idle topic may be old.
func (s *Situation) measures(p history.Points, i int, t *registry.Topic) bool {
	if i < 0 || i >= len(p.Values["delivered"]) || p.Values["delivered"][i] == nil {
		return false
	}
	began := time.Unix(p.Times[i]-p.Step, 0)
	return t.UpdatedAt.Before(began) && (s.Due.Now.Sub(began) <= s.Due.OldestReady || full(p, i))
}

// stops reads what keeps all jobs of a topic from being called.
func (r *Reader) stops(ctx context.Context, t *registry.Topic, s *Situation) error {
	if t.Delivery == registry.DeliveryPull {
		w, err := r.Queue.Workers(ctx, t.Name)
		s.Alone = err == nil && w.Waiting == 0 && w.Oldest.IsZero() && s.Capacity.Deliveries <= 0
		return ignorePartial(err)
	}
	limits, err := r.Queue.TopicLimits(ctx, []string{t.Name})
	if open := limits[t.Name].BreakerOpen; !open.IsZero() {
		s.Breaker, s.Probe = true, max(0, open.Sub(s.Due.Now))
	}
	return ignorePartial(err)
}

func ignorePartial(err error) error {
	if queue.IsPartial(err) {
		return nil
	}
	return err
}
