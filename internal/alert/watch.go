package alert

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/observe/activity"
	"github.com/wakecall/wakecall/internal/observe/forecast"
	"github.com/wakecall/wakecall/internal/observe/refusals"
	"github.com/wakecall/wakecall/internal/observe/relays"
	"github.com/wakecall/wakecall/internal/queue/recurring"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// Queue is the part of a queue.Queue that a Watch needs.
type Queue interface {
	Active(ctx context.Context, since time.Time) ([]string, error)
	Counts(ctx context.Context) (map[string]store.Stats, error)
	Totals(ctx context.Context, topics []string) (map[string]observe.TopicTotals, error)
	TopicLimits(ctx context.Context, topics []string) (map[string]observe.TopicLimits, error)
	LastDead(ctx context.Context, topic string, limit int) ([]store.Job, error)
}

// Activity is the part of an activity.Reader that a Watch needs.
type Activity interface {
	Attempts(ctx context.Context, topic string, limit int) ([]activity.Attempt, error)
	Lateness(ctx context.Context, topics []string, since time.Time) (map[string]activity.Histogram, error)
}

// Sources are what a Watch reads.
type Sources struct {
	Queue      Queue
	Activity   Activity
	Snapshot   func() *registry.Snapshot
	RegistryUp func() bool
	// Unknown returns the topics whose jobs wait because the topic is missing from the registry, with the number of
	// jobs.
	Unknown func(context.Context) (map[string]int64, error)
	Journal func() error // an error if part of it cannot be written
	Shards  func() []ShardFinding
	// Refused returns the last streak of refused pushes; nil: they are not counted.
	Refused func(context.Context) (refusals.Streak, error)
	// Relays returns the last reports about outbox tables; nil: they are not watched.
	Relays func(context.Context) ([]relays.Relay, error)
	Deaths func(context.Context) []Finding // about processes of this host; nil: none is known
	// Schedules reads the states of schedules; nil: they are not watched.
	Schedules func(context.Context, []*registry.Schedule) []recurring.View

	// Forecast says when the waiting jobs of a topic are cleared; nil: alerts do not say it.
	Forecast func(ctx context.Context, topic string) forecast.Answer

	ClaimDeaths func(context.Context, map[string]Deaths) (map[string]int64, error) // a Store's
}

// ShardFinding is a problem of a shard found by the redis-checker. Kind is one of its kinds.
type ShardFinding struct {
	Shard, Kind string
	Detail      message.Message
	Since       time.Time
}

// Judge reports whether a cause that a round did not find has ended. It returns false if the round could not tell.
type Judge func(f Finding) bool

// Watch detects current problems. Its methods must be called from one goroutine.
type Watch struct {
	src    Sources
	trends map[string]*trend    // by topic
	found  map[string]time.Time // when each finding was last found, at most trendSpan ago
	died   map[string]int64     // the stored counts of deaths; nil before the first are stored

	diedOn  map[string]map[string]int64 // by topic and shard: how many jobs died
	counted bool                        // all shards have counted them

	judged  judgement
	answers lookup[string] // what the topic's endpoint answered recently
	clears  lookup[forecast.Answer]
	outage  time.Time // when a shard was last found down

	began         time.Time // the first round
	swept         time.Time // when all topics were last checked for ready jobs; zero: checked by the next round
	completeSince time.Time // since when each round has read all shards; zero: the last round did not
	registryAway  time.Time // since when the registry's database has been unavailable
	unknown       []Finding // topics, as last found
	unknownAsked  time.Time
	refusedBy     string // the shard whose alert says how many pushes were refused; empty: an alert of their own
	dying         []Finding
	dyingAsked    time.Time
	scheduled     scheduled
}

// manyTopics is the kind of the finding that counts the topics without their own alert.
const manyTopics = "many_topics"

const (
	trendSpan    = 10 * time.Minute
	failingSpan  = 5 * time.Minute
	registryWait = 15 * time.Second
	slowSpan     = time.Minute // for pings
	// defaultSpan is the span of the other rules: shards are read every ten seconds, a ledger three times.
	defaultSpan = 20 * time.Second
	// unevenRounds consecutive rounds raise an alert, because a single one may read a Cluster's buckets at different
	// instants.
	unevenRounds = 3
	sweepEvery   = time.Minute
	lateSpan     = time.Minute
	// outageSpan is how long after a shard's outage the lateness of topics is attributed to the outage.
	outageSpan = 2 * time.Minute
	// calmShare is the share of a limit below which a cause ends, so that a value that fluctuates around the limit is
	// one alert.
	calmShare = 0.5
)

// NewWatch returns a Watch.
func NewWatch(s Sources) *Watch {
	return &Watch{src: s, trends: map[string]*trend{}, found: map[string]time.Time{},
		diedOn: map[string]map[string]int64{}, scheduled: scheduled{known: map[string]*watchedSchedule{}},
		answers: lookup[string]{answersEvery, map[string]looked[string]{}},
		clears:  lookup[forecast.Answer]{forecastsEvery, map[string]looked[forecast.Answer]{}},
	}
}

// Find makes a round and returns the findings, and a Judge for this round.
func (w *Watch) Find(ctx context.Context, r Rules) ([]Finding, Judge) {
	now := time.Now()
	if w.began.IsZero() {
		w.began = now
	}
	list := append(w.shards(r), w.host(r, now)...)
	down := map[string]bool{}
	for _, f := range list {
		if f.Kind == "shard_down" || f.Kind == "shard_partial" {
			down[f.Shard], w.outage = down[f.Shard] || f.Kind == "shard_down", now
		}
	}
	if now.Sub(w.judged.at) >= w.judged.pause || !maps.Equal(w.judged.down, down) {
		w.judged = w.topics(ctx, r, now)
		w.judged.down = down
	}
	unknown := w.judged.unknown
	refused, err := w.refused(ctx, list, now)
	unknown["refused"] = err != nil
	schedules, err := w.schedules(ctx, now)
	unknown["schedule_late"], unknown["schedule_dead"] = err != nil, err != nil
	outboxes, err := w.relays(ctx, now)
	for _, kind := range relayKinds {
		unknown[kind] = err != nil
	}
	list = slices.Concat(list, refused, outboxes, w.deaths(ctx, now))
	byOutage := func(f Finding) bool { return w.byOutage(&f, now) }
	topics := slices.DeleteFunc(slices.Concat(w.judged.found, schedules), byOutage)
	list = append(list, w.bound(topics, now)...)
	w.addMore(ctx, list, now)
	maps.DeleteFunc(w.found, func(_ string, at time.Time) bool { return now.Sub(at) > trendSpan })
	for _, f := range list {
		w.found[f.id()] = now
	}
	return list, func(f Finding) bool {
		if unknown[f.Kind] || (f.Kind != "shard_down" && down[f.Shard]) {
			return false
		}
		since := w.began
		if f.Topic != "" {
			since = w.completeSince
		}
		return !since.IsZero() && (now.Sub(since) >= span(f.Kind, r) || !w.found[f.id()].Before(since))
	}
}

// byOutage reports whether the jobs of a previously healthy topic wait because a shard is, or recently was, down.
func (w *Watch) byOutage(f *Finding, now time.Time) bool {
	kinds := []string{"late", "no_consumer", "no_worker", "schedule_late"}
	return slices.Contains(kinds, f.Kind) && now.Sub(w.outage) < outageSpan &&
		w.found[f.id()].IsZero()
}

// judgement is the result of a round about topics.
type judgement struct {
	found   []Finding
	unknown map[string]bool // kinds of causes that could not be judged
	down    map[string]bool // the shards that were down
	at      time.Time
	pause   time.Duration // before the next one
}

// With 100,000 topics whose jobs are called, reading the topics takes seconds. After such a round, they are not read
// again for pauseShare times its duration or readPause, even if it timed out before all were read.
const (
	quickRead  = 500 * time.Millisecond
	pauseShare = 9
	readPause  = 15 * time.Second
)

// topics judges the topics.
func (w *Watch) topics(ctx context.Context, r Rules, now time.Time) judgement {
	var list []Finding
	names, ready, complete := w.read(ctx, now)
	for _, name := range names {
		t := w.src.Snapshot().Topics.Get(name)
		if t == nil {
			continue
		}
		list = append(list, paused(t, ready[name])...)
		if complete {
			list = append(list, w.judgeTopic(t, r, now)...)
		}
	}
	broken, brokenErr := w.breakers(ctx, r, names, now)
	late, lateErr := w.late(ctx, r, names, ready, now)
	lost, lostErr := w.unknownTopics(ctx, r, now)
	failed := !complete || cmp.Or(brokenErr, lateErr, lostErr) != nil
	j := judgement{found: slices.Concat(list, broken, late, lost), at: time.Now(), unknown: map[string]bool{
		"breaker": brokenErr != nil, "late": lateErr != nil, "topic_unknown": lostErr != nil, manyTopics: failed,
	}}
	if took := j.at.Sub(now); took > quickRead && (!failed || ctx.Err() != nil) {
		j.pause = min(readPause, pauseShare*took)
	}
	return j
}

// span returns how long a watch must run before it can say that a problem it has not found itself has ended.
func span(kind string, r Rules) time.Duration {
	switch kind {
	case "no_consumer":
		return r.NoConsumer.Std()
	case "no_worker":
		return r.NoWorker.Std()
	case "topic_failing":
		return failingSpan
	case "dead":
		return trendSpan
	case "shard_slow":
		return slowSpan
	}
	return defaultSpan
}
