package forecast

import (
	"context"
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
	recently = 2 * time.Minute
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
		Capacity: Measure(ctx, r.History, t.Name),
	}
	s.Capacity.Limit, s.Capacity.MaxInFlight = t.RateLimit, t.MaxInFlight
	attempts, _ := r.Activity.Attempts(ctx, t.Name, AttemptsRead) // on an error: those that could be read
	s.learn(attempts)
	s.Capacity.Decide()
	if due.Ready > 0 {
		r.lastMinute(ctx, t, s)
		if err := r.stops(ctx, t, s); err != nil {
			return Answer{}, nil, err
		}
	}
	return Of(s), s, err
}

// learn computes the mean time of calls and, from the recent ones, the share that succeeded.
func (s *Situation) learn(attempts []activity.Attempt) {
	var sum float64
	var good, all int
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
	if s.Share = 1; all > 0 {
		s.Share = float64(good) / float64(all)
	}
	if c.Calls > 0 && c.MaxInFlight > 0 {
		c.Mean = time.Duration(sum / float64(c.Calls) * float64(time.Millisecond))
		c.Flight = float64(c.MaxInFlight) / c.Mean.Seconds()
	}
}

// lastMinute reads the deliveries of the last whole minute in the history, and whether jobs waited for all of it. They
// say nothing if the topic was paused or had another limit then.
func (r *Reader) lastMinute(ctx context.Context, t *registry.Topic, s *Situation) {
	p, err := r.History.Series(ctx, t.Name, history.Spans()[0])
	if err != nil {
		return
	}
	i := len(p.Times) - 1
	for i >= 0 && time.Unix(p.Times[i], 0).Add(stored).After(s.Due.Now) {
		i--
	}
	if i < 0 {
		return
	}
	began := time.Unix(p.Times[i]-p.Step, 0)
	waited := s.Due.Now.Sub(began) <= s.Due.OldestReady // the sample of an idle topic may be old
	s.Full = t.UpdatedAt.Before(began) && (waited || full(p, i))
	s.Delivered = value(p, "delivered", i)
}

// stops reads what keeps all jobs of a topic from being called.
func (r *Reader) stops(ctx context.Context, t *registry.Topic, s *Situation) error {
	if t.Delivery == registry.DeliveryPull {
		w, err := r.Queue.Workers(ctx, t.Name)
		s.Alone = err == nil && w.Waiting == 0 && w.Oldest.IsZero() && s.Delivered == 0
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
