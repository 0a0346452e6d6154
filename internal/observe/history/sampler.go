package history

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/pause"
	"github.com/wakecall/wakecall/internal/queue"
)

// Source is the part of a queue.Queue that the sampler needs.
type Source interface {
	// Active lists the topics with events since a time.
	Active(ctx context.Context, since time.Time) ([]string, error)
	// Totals reads topics. With a *queue.PartialError, the numbers come from the shards that answered.
	Totals(ctx context.Context, topics []string) (map[string]observe.TopicTotals, error)
}

// Storage stores samples, and the lease of the host that samples. Store implements it.
type Storage interface {
	SampleReader
	PutSamples(ctx context.Context, samples []Sample) error
	PruneSamples(ctx context.Context, now time.Time) error
	// Lead tries to take or extend the lease of a role, and reports whether the host holds it.
	Lead(ctx context.Context, role, host string, ttl time.Duration) (bool, error)
}

// Options of a Sampler.
type Options struct {
	Source Source
	Store  Storage
	// Lateness returns the lateness of calls since a time, by topic, or with nil topics of all together, under "". nil:
	// lateness is unknown.
	Lateness func(ctx context.Context, topics []string, since time.Time) (map[string]Lateness, error)
	Topics   func() []string       // returns all registered topics
	Shards   func() []ShardReading // returns the checker's readings; nil: none
	Host     string
	Now      func() time.Time // nil: time.Now
	Logger   *slog.Logger
}

// Sampler takes samples. Its methods are for one goroutine.
type Sampler struct {
	opts   Options
	topics *topicStates
	shards shardSlots

	leads      bool
	silent     bool // no shard is up, or the read failed, so the topics' numbers are unknown
	lastRound  time.Time
	lastRead   time.Time // of topics
	readAgain  time.Time // the earliest next reading; zero: in the next round
	lastFull   time.Time // when all topics were read
	lastEvents time.Time // the last round that found a topic with events
	pruned     time.Time
	pending    []Sample // not stored yet
	failing    bool
}

// New returns a Sampler; Run starts it.
func New(o Options) *Sampler {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Shards == nil {
		o.Shards = func() []ShardReading { return nil }
	}
	return &Sampler{opts: o, topics: newTopicStates(), shards: shardSlots{}}
}

// Run samples until ctx is done.
func (s *Sampler) Run(ctx context.Context) error {
	for {
		if !pause.For(ctx, untilNext(s.opts.Now())) {
			return nil
		}
		// A store that hangs makes the sampler miss rounds, but does not stop it.
		limited, cancel := context.WithTimeout(ctx, Round-time.Second)
		err := s.Round(limited, s.opts.Now().Truncate(Round))
		cancel()
		if ctx.Err() == nil {
			s.log(err)
		}
	}
}

// untilNext returns the time until the next multiple of Round, so that all hosts sample at the same times.
func untilNext(now time.Time) time.Duration { return now.Truncate(Round).Add(Round).Sub(now) }

// log logs the first and the last of consecutive errors.
func (s *Sampler) log(err error) {
	switch {
	case err != nil && !s.failing:
		s.opts.Logger.Warn("sampling failed; retrying", "error", err)
	case err == nil && s.failing:
		s.opts.Logger.Info("sampling again")
	}
	s.failing = err != nil
}

// leaseTTL allows a leader to miss two rounds.
const leaseTTL = 3 * Round

// lead takes or extends the lease. While the store is unavailable, the last leader continues and stores its samples
// later.
func (s *Sampler) lead(ctx context.Context) error {
	leads, err := s.opts.Store.Lead(ctx, "history", s.opts.Host, leaseTTL)
	if err != nil {
		return err
	}
	if s.leads && !leads {
		*s = *New(s.opts)
	}
	s.leads = leads
	return nil
}

// Round samples once, at a multiple of the constant Round. Run calls it.
func (s *Sampler) Round(ctx context.Context, at time.Time) error {
	leadErr := s.lead(ctx)
	if !s.leads {
		return leadErr
	}
	if at.Before(s.lastRound) { // the clock was set back: these times would be in the future
		s.readAgain, s.lastFull, s.pruned = time.Time{}, time.Time{}, time.Time{}
	}
	shards := s.opts.Shards()
	s.silent = len(shards) > 0 && !slices.ContainsFunc(shards, func(r ShardReading) bool { return r.Up })
	err := leadErr
	if !s.silent {
		readErr := s.readTopics(ctx, at)
		s.silent, err = readErr != nil, errors.Join(leadErr, readErr)
	}
	s.shards.add(shards)
	for _, t := range tiers {
		if !s.lastRound.IsZero() && !at.Truncate(t.Step).Equal(s.lastRound.Truncate(t.Step)) {
			s.endSlot(ctx, t, at.Truncate(t.Step))
		}
	}
	s.lastRound = at
	return errors.Join(err, s.store(ctx, at))
}

const (
	fullEvery = 10 * time.Minute // how often topics without events are read
	// activeSlack bounds the delay until a topic is listed as active after an event.
	activeSlack = 10 * time.Second
	// pauseShare is how many times the duration of a reading to wait before the next one, but at most pauseMost. With
	// 100,000 topics whose jobs are called, a reading takes seconds. Rounds meanwhile store the known numbers.
	pauseShare = 19
	pauseMost  = 15 * time.Second
)

// readTopics updates the states of the topics.
func (s *Sampler) readTopics(ctx context.Context, at time.Time) error {
	if at.Before(s.readAgain) {
		s.lastEvents = at
		return nil
	}
	began := s.opts.Now()
	topics, all, err := s.choose(ctx, at)
	if err == nil && len(topics) == 0 && !all {
		s.lastRead = at
		return nil
	}
	s.lastEvents = at
	if err != nil {
		return err
	}
	readings, earlier, missing, err := s.read(ctx, topics)
	if err != nil {
		return err
	}
	last, stored := Totals{}, time.Time{}
	if !s.topics.begun {
		last, stored, err = s.lastTotals(ctx, at)
	}
	if !s.topics.begun && missing == "" && err == nil {
		s.begin(earlier, last, stored, at)
	}
	if missing == "" { // otherwise it waited for a shard
		ended := s.opts.Now()
		s.readAgain = ended.Add(min(pauseMost, pauseShare*ended.Sub(began)))
	}
	s.topics.update(readings, missing, last)
	s.lastRead = at
	if all {
		s.topics.keepOnly(topics)
		s.lastFull = at
	}
	return nil
}

// begin stores the totals before a start, so that the charts have what happened until the first reading. stored is when
// the last totals were stored: since then there was no sampler, and probably nothing else. At the first start of all
// (zero), these are the totals before today.
func (s *Sampler) begin(earlier map[string]Reading, last Totals, stored, at time.Time) {
	before := Reading{Totals: last}
	if stored.IsZero() {
		s.topics.update(earlier, "", Totals{})
		before = s.topics.all
	} else if at.Sub(stored) <= leaseTTL {
		return
	}
	for _, t := range tiers {
		s.pending = append(s.pending, newRecord(before, Lateness{}).sample(AllTopics, t, at.Truncate(t.Step)))
	}
}

// topicsAtOnce bounds the memory for totals of many topics.
const topicsAtOnce = 2000

// read reads topics, except those that never had a job. earlier are their totals before today; missing are the shards
// that did not answer.
func (s *Sampler) read(ctx context.Context, topics []string) (
	readings, earlier map[string]Reading, missing string, err error,
) {
	readings, earlier = map[string]Reading{}, map[string]Reading{}
	silent := map[string]bool{}
	for some := range slices.Chunk(topics, topicsAtOnce) {
		totals, err := s.opts.Source.Totals(ctx, some)
		if err != nil && !queue.IsPartial(err) {
			return nil, nil, "", err
		}
		for _, shard := range queue.Missing(err) {
			silent[shard] = true
		}
		for topic, t := range totals {
			if r := (Reading{t.Total, t.Stats}); r != (Reading{}) || s.topics.topics[topic] != nil {
				readings[topic], earlier[topic] = r, Reading{Totals: rise(t.Total, t.Today)}
			}
		}
	}
	return readings, earlier, strings.Join(slices.Sorted(maps.Keys(silent)), " "), nil
}

// choose lists the topics to read: those with events, and once every fullEvery all of them.
func (s *Sampler) choose(ctx context.Context, at time.Time) (topics []string, all bool, err error) {
	if at.Sub(s.lastFull) >= fullEvery {
		return s.opts.Topics(), true, nil
	}
	topics, err = s.opts.Source.Active(ctx, s.lastRead.Add(-activeSlack))
	if queue.IsPartial(err) {
		err = nil
	}
	return topics, false, err
}

// lastTotals returns the last stored totals of all topics, and when they were stored; zero: never.
func (s *Sampler) lastTotals(ctx context.Context, at time.Time) (Totals, time.Time, error) {
	for _, t := range tiers {
		list, err := s.opts.Store.Samples(ctx, AllTopics, t.Name, at.Add(-t.Keep), at)
		if err != nil {
			return Totals{}, time.Time{}, err
		}
		if len(list) == 0 {
			continue
		}
		last := slices.MaxFunc(list, func(a, b Sample) int { return a.At.Compare(b.At) })
		r, err := decode(last)
		return r.Totals, last.At, err
	}
	return Totals{}, time.Time{}, nil
}

// endSlot creates the samples at the end of a tier's slot.
func (s *Sampler) endSlot(ctx context.Context, t Tier, at time.Time) {
	late := Lateness{}
	if !s.lastEvents.Before(at.Add(-t.Step)) { // otherwise no job was called
		late = s.lateness(ctx, nil, t, at)[""]
	}
	if !s.silent { // otherwise the charts have a gap
		s.pending = append(s.pending, newRecord(s.topics.all, late).sample(AllTopics, t, at))
	}
	for name, r := range s.shards.end(t) {
		s.pending = append(s.pending, record{Shard: &r}.sample(ShardSeries(name), t, at))
	}
	if t.Step == Round || s.silent {
		return
	}
	changed := s.topics.changed(t, at)
	names := make([]string, len(changed))
	for i, c := range changed {
		names[i] = c.topic
	}
	var latenesses map[string]Lateness
	if len(names) > 0 {
		latenesses = s.lateness(ctx, names, t, at)
	}
	for _, c := range changed {
		if c.resumes { // so that the rise is in this slot
			s.pending = append(s.pending, newRecord(c.before, Lateness{}).sample(c.topic, t, at.Add(-t.Step)))
		}
		s.pending = append(s.pending, newRecord(c.now, latenesses[c.topic]).sample(c.topic, t, at))
	}
}

// lateness returns an empty map if the lateness cannot be read, because a line of a chart may have a gap, but counters
// may not.
func (s *Sampler) lateness(ctx context.Context, topics []string, t Tier, at time.Time) map[string]Lateness {
	if ctx.Err() != nil || s.opts.Lateness == nil {
		return nil
	}
	l, _ := s.opts.Lateness(ctx, topics, at.Add(-t.Step))
	return l
}

const (
	maxPending = 20_000 // samples held while the store is unavailable; the oldest are dropped first
	putBatch   = 500    // samples per call
	pruneEvery = 10 * time.Minute
)

func (s *Sampler) store(ctx context.Context, at time.Time) error {
	for batch := range slices.Chunk(s.pending, putBatch) {
		if err := s.opts.Store.PutSamples(ctx, batch); err != nil {
			s.pending = slices.Clone(s.pending[max(0, len(s.pending)-maxPending):])
			return err
		}
		s.pending = s.pending[len(batch):]
	}
	s.pending = nil
	if at.Sub(s.pruned) < pruneEvery {
		return nil
	}
	s.pruned = at
	return s.opts.Store.PruneSamples(ctx, at)
}
