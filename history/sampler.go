package history

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/wakecall/wakecall/queue"
)

// Source is what the sampler reads of the topics; *queue.Queue is one.
type Source interface {
	// Active are the topics to which something happened since then.
	Active(ctx context.Context, since time.Time) ([]string, error)
	// Totals reads topics. With a *queue.PartialError the numbers are those of the shards that answered.
	Totals(ctx context.Context, topics []string) (map[string]queue.TopicTotals, error)
}

// Storage is where the sampler keeps samples and hosts agree on which one of them samples; a Store is one.
type Storage interface {
	SampleReader
	PutSamples(ctx context.Context, samples []Sample) error
	PruneSamples(ctx context.Context, now time.Time) error
	// Lead says whether this host holds the lease of a role, after trying to take or renew it.
	Lead(ctx context.Context, role, host string, ttl time.Duration) (bool, error)
}

// Options of a Sampler.
type Options struct {
	Source Source
	Store  Storage
	// Lateness of a topic's callbacks since then, or of all for ""; nil: not known.
	Lateness func(ctx context.Context, topic string, since time.Time) (Lateness, error)
	Topics   func() []string       // all that are registered
	Shards   func() []ShardReading // as the checker sees them; nil: none
	Host     string
	Now      func() time.Time // nil: time.Now
	Logger   *slog.Logger
}

// Sampler takes samples while it runs.
type Sampler struct {
	opts   Options
	topics *topicBook
	shards shardBook

	leader  bool
	last    time.Time // of the round before
	full    time.Time // when all topics were read last
	busy    time.Time // of the last round that found a topic to which something had happened
	pruned  time.Time
	pending []Sample // not stored yet
	failing bool

	mu     sync.Mutex
	ledger ledger
}

// New makes a sampler; Run starts it.
func New(o Options) *Sampler {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Shards == nil {
		o.Shards = func() []ShardReading { return nil }
	}
	return &Sampler{opts: o, topics: newTopicBook(), shards: shardBook{}}
}

// Run samples until ctx is done.
func (s *Sampler) Run(ctx context.Context) error {
	for {
		t := time.NewTimer(untilNext(s.opts.Now()))
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-t.C:
		}
		s.limited(ctx)
	}
}

// untilNext is the time to the next instant of the grid, so that all hosts sample at the same ones.
func untilNext(now time.Time) time.Duration { return now.Truncate(Round).Add(Round).Sub(now) }

// limited bounds a round, so that a store that hangs costs rounds and not the sampler.
func (s *Sampler) limited(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, Round-time.Second)
	defer cancel()
	s.note(ctx, s.round(ctx, s.opts.Now().Truncate(Round)))
}

// note logs the beginning and the end of trouble, not every round of it.
func (s *Sampler) note(ctx context.Context, err error) {
	switch {
	case err != nil && ctx.Err() != nil && errors.Is(ctx.Err(), context.Canceled):
	case err != nil && !s.failing:
		s.failing = true
		s.opts.Logger.Warn("sampling fails", "error", err)
	case err == nil && s.failing:
		s.failing = false
		s.opts.Logger.Info("sampling works again")
	}
}

// leaseTTL lets a leader miss two rounds.
const leaseTTL = 3 * Round

// lead asks for the lease. With the registry away who led before goes on: what it reads meanwhile is stored later.
func (s *Sampler) lead(ctx context.Context) error {
	leads, err := s.opts.Store.Lead(ctx, "history", s.opts.Host, leaseTTL)
	if err != nil {
		return err
	}
	if s.leader && !leads {
		s.forget()
	}
	s.leader = leads
	return nil
}

func (s *Sampler) forget() {
	s.topics, s.shards, s.pending = newTopicBook(), shardBook{}, nil
	s.last, s.full, s.busy = time.Time{}, time.Time{}, time.Time{}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger = ledger{}
}

// round samples once, at an instant of the grid.
func (s *Sampler) round(ctx context.Context, at time.Time) error {
	leadErr := s.lead(ctx)
	if !s.leader {
		return leadErr
	}
	err := errors.Join(leadErr, s.readTopics(ctx, at))
	s.shards.see(s.opts.Shards())
	for _, t := range tiers {
		if s.last.IsZero() || at.Truncate(t.Step).Equal(s.last.Truncate(t.Step)) {
			continue
		}
		s.take(ctx, t, at.Truncate(t.Step))
	}
	s.last = at
	return errors.Join(err, s.store(ctx, at))
}

// fullEvery is how often topics are read to which nothing seems to happen.
const fullEvery = 10 * time.Minute

// activeSlack is how much older than a change its note may be.
const activeSlack = 10 * time.Second

// readTopics brings the book up to date.
func (s *Sampler) readTopics(ctx context.Context, at time.Time) error {
	which, all, err := s.which(ctx, at)
	if err == nil && len(which) == 0 && !all {
		return nil
	}
	s.busy = at
	if err != nil {
		return err
	}
	totals, err := s.opts.Source.Totals(ctx, which)
	var partial *queue.PartialError
	if err != nil && !errors.As(err, &partial) {
		return err
	}
	missing := ""
	if partial != nil {
		missing = missingKey(partial.Shards)
	}
	readings := make(map[string]Reading, len(totals))
	for topic, t := range totals {
		readings[topic] = Reading{t.Total, t.Stats}
	}
	s.topics.see(readings, missing, s.base(ctx, at, missing))
	if all {
		s.topics.keepOnly(which)
		s.full = at
	}
	if missing == "" {
		s.checkLedger(readings)
	}
	return nil
}

// base is where the totals of all topics stood when somebody stored them last. It is needed only when this sampler begins while a shard
// is down.
func (s *Sampler) base(ctx context.Context, at time.Time, missing string) Totals {
	if s.topics.begun || missing == "" {
		return Totals{}
	}
	list, err := s.opts.Store.Samples(ctx, AllTopics, tiers[0].Name, at.Add(-tiers[0].Keep), at)
	if err != nil || len(list) == 0 {
		return Totals{}
	}
	latest := slices.MaxFunc(list, func(a, b Sample) int { return a.At.Compare(b.At) })
	r, err := decode(latest)
	if err != nil {
		return Totals{}
	}
	return r.totals()
}

func (s *Sampler) which(ctx context.Context, at time.Time) (topics []string, all bool, err error) {
	if s.full.IsZero() || at.Sub(s.full) >= fullEvery {
		return s.opts.Topics(), true, nil
	}
	active, err := s.opts.Source.Active(ctx, s.last.Add(-activeSlack))
	if err != nil && !queue.IsPartial(err) {
		return nil, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return union(active, s.ledger.suspects()), false, nil
}

func union(a, b []string) []string {
	list := append(slices.Clone(a), b...)
	slices.Sort(list)
	return slices.Compact(list)
}

func (s *Sampler) checkLedger(readings map[string]Reading) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for topic, r := range readings {
		s.ledger.check(topic, r)
	}
}

// Mismatches are the topics whose ledger did not add up three times in a row.
func (s *Sampler) Mismatches() []Mismatch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.mismatches()
}

// take makes the samples of a tier at the end of its slot.
func (s *Sampler) take(ctx context.Context, t Tier, at time.Time) {
	late := Lateness{}
	if !s.busy.Before(at.Add(-t.Step)) { // else nothing was called
		late = s.lateness(ctx, "", t, at)
	}
	s.pending = append(s.pending, newRecord(s.topics.all, late).sample(AllTopics, t, at))
	for name, r := range s.shards.slot(t) {
		s.pending = append(s.pending, record{Shard: &r}.sample(ShardSeries(name), t, at))
	}
	if t.Step > Round {
		s.takeTopics(ctx, t, at)
	}
}

func (s *Sampler) takeTopics(ctx context.Context, t Tier, at time.Time) {
	changed := s.topics.changed(t, at)
	late := s.latenesses(ctx, changed, t, at)
	for i, c := range changed {
		if c.resumes {
			s.pending = append(s.pending, newRecord(c.before, Lateness{}).sample(c.topic, t, at.Add(-t.Step)))
		}
		s.pending = append(s.pending, newRecord(c.now, late[i]).sample(c.topic, t, at))
	}
}

// latenessAtOnce bounds how many topics are asked at the same time.
const latenessAtOnce = 8

func (s *Sampler) latenesses(ctx context.Context, changed []change, t Tier, at time.Time) []Lateness {
	list := make([]Lateness, len(changed))
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(latenessAtOnce, len(changed)) {
		wg.Go(func() {
			for i := range next {
				list[i] = s.lateness(ctx, changed[i].topic, t, at)
			}
		})
	}
	for i := range changed {
		next <- i
	}
	close(next)
	wg.Wait()
	return list
}

// lateness is zero when it cannot be had: a chart's line may have a gap, the counters may not.
func (s *Sampler) lateness(ctx context.Context, topic string, t Tier, at time.Time) Lateness {
	if ctx.Err() != nil || s.opts.Lateness == nil {
		return Lateness{}
	}
	l, err := s.opts.Lateness(ctx, topic, at.Add(-t.Step))
	if err != nil {
		return Lateness{}
	}
	return l
}

const (
	pendingLimit = 20_000 // samples kept while the registry is away; the oldest go first
	putStep      = 500    // samples in one call
	pruneEvery   = 10 * time.Minute
)

func (s *Sampler) store(ctx context.Context, at time.Time) error {
	for len(s.pending) > 0 {
		n := min(putStep, len(s.pending))
		if err := s.opts.Store.PutSamples(ctx, s.pending[:n]); err != nil {
			s.pending = slices.Clone(s.pending[max(0, len(s.pending)-pendingLimit):])
			return err
		}
		s.pending = s.pending[n:]
	}
	s.pending = nil
	if at.Sub(s.pruned) < pruneEvery {
		return nil
	}
	s.pruned = at
	return s.opts.Store.PruneSamples(ctx, at)
}
