package alert

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/observe/activity"
	"github.com/wakecall/wakecall/internal/observe/forecast"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// shardSeverities are those of kinds of findings that are no warnings.
var shardSeverities = map[string]string{
	"down": Critical, "forbidden": Critical, "partial": Critical, "eviction": Critical, "write_error": Critical,
	"restarted": Info, // the restart has ended
}

// shards judges the redis-checker's findings.
func (w *Watch) shards(r Rules) []Finding {
	if !r.Shards {
		return nil
	}
	var list []Finding
	for _, f := range w.src.Shards() {
		severity := cmp.Or(shardSeverities[f.Kind], Warning)
		list = append(list, Finding{
			Shard: f.Shard,
			Cause: Cause{Kind: "shard_" + f.Kind, Severity: severity, Text: f.Detail, BeganAt: f.Since},
		})
	}
	return list
}

// host judges what this host needs besides Redis: the registry's database and the journal.
func (w *Watch) host(r Rules, now time.Time) []Finding {
	var list []Finding
	if w.src.RegistryUp() {
		w.registryAway = time.Time{}
	} else if w.registryAway.IsZero() {
		w.registryAway = now
	}
	if r.Registry && !w.registryAway.IsZero() && now.Sub(w.registryAway) >= registryWait {
		list = append(list, Finding{Cause: Cause{Kind: "registry", Severity: Critical, BeganAt: w.registryAway}})
	}
	if !r.Journal {
		return list
	}
	if err := w.src.Journal(); err != nil {
		text := message.Plain(err.Error())
		list = append(list, Finding{Cause: Cause{Kind: "journal", Severity: Critical, Text: text}})
	}
	return list
}

// refusedWait is how long pushes must have been refused to be an alert of their own: the redis-checker finds a shard
// that is down within it. It is also how long they must have been refused to be critical.
const refusedWait = 10 * time.Second

// refused finds that pushes were refused lately. If a shard has a problem that explains it, it is a cause of that
// alert, as long as pushes are refused: one outage is one alert.
func (w *Watch) refused(ctx context.Context, found []Finding, now time.Time) ([]Finding, error) {
	if w.src.Refused == nil {
		return nil, nil
	}
	if !w.src.RegistryUp() { // waiting would delay the alert about Redis
		return nil, registry.ErrUnavailable
	}
	streak, err := w.src.Refused(ctx)
	if err != nil {
		return nil, err
	}
	total := streak.Total()
	if now.Sub(total.Last) > defaultSpan {
		w.refusedBy = ""
		return nil, nil
	}
	for i := range found {
		full := found[i].Kind == "shard_memory" && total.Reason == "full"
		if w.refusedBy == "" && found[i].Shard != "" && (found[i].Severity == Critical || full) {
			w.refusedBy = found[i].Shard
		}
	}
	c := Cause{Kind: "refused", Severity: Warning, N: total.N, BeganAt: total.First, SeenAt: total.Last,
		Text: streak.Says()}
	if w.refusedBy == "" && now.Sub(total.First) < refusedWait {
		return nil, nil
	}
	// The shard's own problem is critical, and gives the alert its title.
	if (w.refusedBy == "" || total.Reason == "full") && total.Last.Sub(total.First) >= refusedWait {
		c.Severity = Critical
	}
	return []Finding{{Shard: w.refusedBy, Cause: c}}, nil
}

// deaths finds the processes of this host that keep dying.
func (w *Watch) deaths(ctx context.Context, now time.Time) []Finding {
	if w.src.Deaths != nil && now.Sub(w.dyingAsked) >= unknownEvery {
		w.dying, w.dyingAsked = w.src.Deaths(ctx), now
	}
	return w.dying
}

// unknownEvery is how often the topics in the shards are compared with those of the registry.
const unknownEvery = 15 * time.Second

// unknownTopics finds topics whose jobs wait because the topic is missing from the registry.
func (w *Watch) unknownTopics(ctx context.Context, r Rules, now time.Time) ([]Finding, error) {
	if !r.Registry || w.src.Unknown == nil || now.Sub(w.unknownAsked) < unknownEvery {
		return w.unknown, nil
	}
	counts, err := w.src.Unknown(ctx)
	if err != nil {
		return w.unknown, err
	}
	w.unknown, w.unknownAsked = nil, now
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		w.unknown = append(w.unknown, Finding{
			Topic: name, Cause: Cause{Kind: "topic_unknown", Severity: Critical, N: counts[name]},
		})
	}
	return w.unknown, nil
}

// paused finds a topic that is paused though it has ready jobs.
func paused(t *registry.Topic, n store.Stats) []Finding {
	if t.State == registry.TopicActive || n.Ready == 0 {
		return nil
	}
	return []Finding{{Topic: t.Name, Cause: Cause{
		Kind: "paused", Severity: Info, N: n.Ready, For: n.OldestReady.Round(time.Second),
	}}}
}

// judgeTopic judges one topic by its recent readings.
func (w *Watch) judgeTopic(t *registry.Topic, r Rules, now time.Time) []Finding {
	var list []Finding
	add := func(c Cause) { list = append(list, Finding{Topic: t.Name, Cause: c}) }
	recent := w.trends[t.Name]
	if kind, found := w.nobodyTakes(t, r, now); found {
		add(Cause{
			Kind: kind, Severity: Critical, N: recent.last.Ready, For: recent.idle(now).Round(time.Second),
			BeganAt: recent.idleSince,
		})
	}
	did := recent.since(failingSpan, now)
	attempts := did.failed + did.delivered
	recent.judgeStep(cmp.Or(r.FailingShare, failingShare), now)
	share := w.limit(r.FailingShare, "topic_failing//"+t.Name, now)
	if share > 0 && attempts >= max(1, r.FailingLeast) && float64(did.failed) >= share*float64(attempts) {
		c := recent.failing.of(Cause{Kind: "topic_failing", Severity: Warning, N: did.failed, Of: attempts})
		c.Recovering = recent.recovered.After(c.SeenAt) && !recent.fails(now)
		add(c)
	}
	if recent.step.died > 0 {
		recent.dying.add(now, failingSpan)
	}
	if died := recent.since(trendSpan, now).died; r.DeadJobs > 0 && died >= r.DeadJobs {
		add(recent.dying.of(Cause{Kind: "dead", Severity: Warning, N: died, Of: recent.last.Dead}))
	}
	if r.Ledger && recent.unevenRounds >= unevenRounds {
		add(Cause{Kind: "ledger", Severity: Critical, Text: recent.last.Ledger()})
	}
	return list
}

// nobodyTakes reports whether nobody reserves the ready jobs of a topic: no dispatcher or, for a pull topic, no worker.
// A pull topic needs no worker for fewer than NoWorkerJobs ready jobs.
func (w *Watch) nobodyTakes(t *registry.Topic, r Rules, now time.Time) (kind string, found bool) {
	kind, limit, least := "no_consumer", r.NoConsumer.Std(), float64(1)
	if t.Delivery == registry.DeliveryPull {
		kind, limit = "no_worker", r.NoWorker.Std()
		least = w.limit(float64(r.NoWorkerJobs), "no_worker//"+t.Name, now)
	}
	recent := w.trends[t.Name]
	found = t.State == registry.TopicActive && limit > 0 && least > 0 && recent.idle(now) >= limit &&
		float64(recent.last.Ready) >= least
	return kind, found
}

// limit returns a limit, or a share of it after a recent finding, so that a value that fluctuates around the limit is
// one alert.
func (w *Watch) limit(v float64, id string, now time.Time) float64 {
	if now.Sub(w.found[id]) <= defaultSpan {
		return calmShare * v
	}
	return v
}

// breakers finds topics whose endpoints are not called because their breaker is open.
func (w *Watch) breakers(ctx context.Context, r Rules, topics []string, now time.Time) (list []Finding, err error) {
	if !r.Breaker {
		return nil, nil
	}
	limits, err := w.src.Queue.TopicLimits(ctx, topics) // on error: the limits of the shards that answer
	for name, l := range limits {
		if l.BreakerOpen.IsZero() || !l.BreakerOpen.After(now.Add(-time.Minute)) {
			continue
		}
		c := Cause{Kind: "breaker", Severity: Critical, N: l.Failures}
		list = append(list, Finding{Topic: name, Cause: c})
	}
	for _, name := range topics { // one response closed the breaker, but the endpoint goes on failing
		recent := w.trends[name]
		if recent == nil || !limits[name].BreakerOpen.IsZero() || !recent.fails(now) ||
			now.Sub(w.found["breaker//"+name]) > defaultSpan {
			continue
		}
		if did := recent.since(runGap, now); did.failing(calmShare * failingShare) {
			c := Cause{Kind: "breaker", Severity: Critical, N: did.failed, Of: did.failed + did.delivered}
			list = append(list, Finding{Topic: name, Cause: c})
		}
	}
	return list, err
}

// late finds topics whose calls are late, by the oldest waiting job or by the calls of the last minute, whichever is
// worse.
func (w *Watch) late(
	ctx context.Context, r Rules, topics []string, ready map[string]store.Stats, now time.Time,
) (list []Finding, err error) {
	for some := range slices.Chunk(topics, topicsAtOnce) {
		// On error: the calls of the shards that answer.
		calls, callsErr := w.src.Activity.Lateness(ctx, some, now.Add(-lateSpan))
		found := w.lateOf(r, some, ready, calls, now)
		err = cmp.Or(err, callsErr, w.latelyInTime(ctx, found, now))
		list = append(list, found...)
	}
	return list, err
}

// inTimeSpan is for how long calls must not have been late before their topic is recovering.
const inTimeSpan = 10 * time.Second

// latelyInTime marks the topics that are late only by calls of the last minute, if the latest of those were not.
func (w *Watch) latelyInTime(ctx context.Context, list []Finding, now time.Time) error {
	var names []string
	for _, f := range list {
		if !f.SeenAt.IsZero() {
			names = append(names, f.Topic)
		}
	}
	calls, err := w.src.Activity.Lateness(ctx, names, now.Add(-inTimeSpan))
	for i := range list {
		f := &list[i]
		f.Recovering = err == nil && !f.SeenAt.IsZero() && calls[f.Topic].Quantile(0.99) <= f.Limit
	}
	return err
}

func (w *Watch) lateOf(
	r Rules, topics []string, ready map[string]store.Stats, calls map[string]activity.Histogram, now time.Time,
) (list []Finding) {
	for _, name := range topics {
		t := w.src.Snapshot().Topics.Get(name)
		if t == nil || t.State != registry.TopicActive || r.Objective(t) <= 0 {
			continue
		}
		objective := r.Objective(t)
		n, p99 := ready[name], calls[name].Quantile(0.99)
		worst := max(n.OldestReady, p99)
		if limit := w.limit(float64(objective), "late//"+name, now); float64(worst) > limit {
			c := Cause{
				Kind: "late", Severity: Warning, N: n.Ready, For: n.OldestReady.Round(time.Second), P99: p99,
				Limit: objective,
			}
			if float64(n.OldestReady) <= limit { // only calls of the last minute are late
				c.SeenAt = now.Add(-lateSpan)
			}
			list = append(list, Finding{Topic: name, Cause: c})
		}
	}
	return list
}

// mostTopics is about the number of topics with their own alerts for one kind of problem.
const mostTopics = 100

// bound keeps some findings of each kind, and adds one that counts the other topics. If the machine cannot make all
// calls that are due, tens of thousands of topics may be late. Groups of topics take turns, each with its most severe
// findings first, so that one tenant's topics leave no other tenant without an alert. Topics with recipients of their
// own are always kept, and so are recent findings. Otherwise topics that take turns at being the worst would each begin
// an alert every time.
func (w *Watch) bound(list []Finding, now time.Time) []Finding {
	slices.SortFunc(list, func(a, b Finding) int {
		return cmp.Or(w.lately(&b, now)-w.lately(&a, now), cmp.Compare(max(b.For, b.P99), max(a.For, a.P99)))
	})
	turns, turn := map[string]int{}, map[string]int{}
	for _, f := range list {
		group := f.Kind + "/" + groupOf(f.Topic)
		turn[f.id()] = turns[group]
		turns[group]++
	}
	slices.SortStableFunc(list, func(a, b Finding) int { return turn[a.id()] - turn[b.id()] })
	of, kept := map[string]int{}, list[:0:0]
	more, severity := map[string]bool{}, Info
	for _, f := range list {
		if of[f.Kind]++; of[f.Kind] <= mostTopics || w.lately(&f, now) > 0 || w.hasRecipients(f.Topic) {
			kept = append(kept, f)
			continue
		}
		more[f.Topic] = true
		if rank(f.Severity) > rank(severity) {
			severity = f.Severity
		}
	}
	for _, f := range kept {
		delete(more, f.Topic)
	}
	if len(more) > 0 {
		kept = append(kept, Finding{Cause: Cause{Kind: manyTopics, Severity: severity, N: int64(len(more))}})
	}
	return kept
}

// groupOf returns the first part of a topic's name, which the patterns of a tenant's tokens have in common. Owners are
// no groups, because whoever may change a topic chooses its owner.
func groupOf(topic string) string {
	first, _, parts := strings.Cut(topic, ".")
	if !parts {
		return strings.TrimRight(topic, "0123456789")
	}
	return first
}

// hasRecipients reports whether alerts of a topic have recipients of their own.
func (w *Watch) hasRecipients(topic string) bool {
	t := w.src.Snapshot().Topics.Get(topic)
	return t != nil && len(t.Emails) > 0
}

// lately returns 1 for a recent finding, and otherwise 0.
func (w *Watch) lately(f *Finding, now time.Time) int {
	if now.Sub(w.found[f.id()]) <= defaultSpan {
		return 1
	}
	return 0
}

const (
	answersEvery   = time.Minute
	answerOf       = 50 // attempts
	forecastsEvery = 10 * time.Second
	readsARound    = 20 // of topics' answers, or forecasts
)

// lookup is something about topics that is read again after a while.
type lookup[T any] struct {
	every time.Duration
	known map[string]looked[T] // by topic
}

type looked[T any] struct {
	value T
	at    time.Time
}

// add calls set with what is known about the topic of each finding that is about it, and reads it if that is due.
func (l *lookup[T]) add(
	list []Finding, now time.Time, about func(*Finding) bool, read func(topic string) T, set func(*Finding, T),
) {
	maps.DeleteFunc(l.known, func(_ string, x looked[T]) bool { return now.Sub(x.at) > trendSpan })
	reads := 0
	for i := range list {
		f := &list[i]
		if !about(f) {
			continue
		}
		known := l.known[f.Topic]
		if now.Sub(known.at) >= l.every && reads < readsARound {
			reads++
			known = looked[T]{read(f.Topic), now}
			l.known[f.Topic] = known
		}
		set(f, known.value)
	}
}

// addMore adds the endpoints' answers to findings about endpoints, and to findings about late jobs when these are
// cleared.
func (w *Watch) addMore(ctx context.Context, list []Finding, now time.Time) {
	w.answers.add(list, now, func(f *Finding) bool { return f.Kind == "breaker" || f.Kind == "topic_failing" },
		func(topic string) string { return w.failures(ctx, topic) },
		func(f *Finding, answer string) { f.Answer = answer })
	w.clears.add(list, now, func(f *Finding) bool { return f.Kind == "late" && f.N > 0 && w.src.Forecast != nil },
		func(topic string) forecast.Answer { return w.src.Forecast(ctx, topic) },
		func(f *Finding, a forecast.Answer) { f.Forecast = a })
}

// failures returns the most frequent status of the recent failed attempts, or the most frequent reason why there was
// none. The last one alone may be of a call that differs from the others, such as the one that closed the breaker.
func (w *Watch) failures(ctx context.Context, topic string) (most string) {
	attempts, _ := w.src.Activity.Attempts(ctx, topic, answerOf) // on error: those that could be read
	count := map[string]int{}
	for _, a := range attempts {
		answer := a.Reason
		switch {
		case a.Outcome == "done" || a.Outcome == "snooze" || a.Outcome == "expired":
			continue
		case a.Reason == "status" && a.Status > 0:
			answer = strconv.Itoa(a.Status)
		}
		if count[answer]++; count[answer] > count[most] {
			most = answer
		}
	}
	return most
}
