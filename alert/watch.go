package alert

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/wakecall/wakecall/activity"
	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
)

// Queue is the part of a queue.Queue that a Watch needs.
type Queue interface {
	Active(ctx context.Context, since time.Time) ([]string, error)
	Stats(ctx context.Context, topics []string) (map[string]queue.Stats, error)
	Totals(ctx context.Context, topics []string) (map[string]queue.TopicTotals, error)
	TopicLimits(ctx context.Context, topics []string) (map[string]queue.TopicLimits, error)
}

// Activity is the part of an activity.Reader that a Watch needs.
type Activity interface {
	Attempts(ctx context.Context, topic string, limit int) ([]activity.Attempt, error)
	Lateness(ctx context.Context, topic string, since time.Time) (activity.Histogram, error)
}

// Sources are what a Watch looks at.
type Sources struct {
	Queue      Queue
	Activity   Activity
	Snapshot   func() *registry.Snapshot
	RegistryUp func() bool
	Journal    func() error // whether all of it can be written
	Shards     func() []ShardFinding

	ClaimDeaths func(context.Context, map[string]Deaths) (map[string]int64, error) // of a registry.Registry
}

// ShardFinding is what the redis-checker finds wrong with a shard; Kind is one of its kinds.
type ShardFinding struct{ Shard, Kind, Detail string }

// Judge says whether an alert that a look did not find is over. It is not while the look could not tell.
type Judge func(a Alert) bool

// Watch finds what is wrong now. Its methods are for one goroutine.
type Watch struct {
	src   Sources
	book  map[string]*topicBook
	found map[string]time.Time // what was found lately by key, and when
	died  map[string]int64     // as the store was told; nil before the first time
	began time.Time            // the first look
	awayS time.Time            // since when the registry is away
	swept time.Time            // when topics were looked through for jobs that wait; zero: the next look reads all topics
	whole time.Time            // since when each look saw the numbers of all shards; zero: the last one did not
}

// topicBook is what a Watch remembers of a topic.
type topicBook struct {
	marks    []mark    // oldest first, at most bookLife old
	idle     time.Time // since when ready jobs wait and nothing was called
	unevenAt int       // rounds in a row with an uneven ledger
	last     queue.TopicTotals
}

type mark struct {
	at                      time.Time
	failed, delivered, died int64
}

const (
	bookLife     = 10 * time.Minute
	failingSpan  = 5 * time.Minute
	registryWait = 15 * time.Second
	slowSpan     = time.Minute      // of pings
	shortSpan    = 20 * time.Second // of the other rules: a shard is asked about itself every ten, a ledger read three times
	unevenRounds = 3
	sweepEvery   = time.Minute
	lateSpan     = time.Minute
	lateTopics   = 50 // without an objective of their own, at most asked about one by one
)

// NewWatch makes a watch.
func NewWatch(s Sources) *Watch {
	return &Watch{src: s, book: map[string]*topicBook{}, found: map[string]time.Time{}}
}

// Find looks once. The judge is about this look.
func (w *Watch) Find(ctx context.Context, r Rules) ([]Finding, Judge) {
	now := time.Now()
	if w.began.IsZero() {
		w.began = now
	}
	list := w.around(r, now)
	down := map[string]bool{}
	for _, f := range list {
		down[f.Shard] = down[f.Shard] || f.Kind == "shard_down"
	}
	topics, totals, whole := w.read(ctx, now)
	for _, name := range topics {
		t := w.src.Snapshot().Topics[name]
		if t == nil {
			continue
		}
		list = append(list, backlog(t, totals[name].Stats, r)...)
		if whole {
			list = append(list, w.topic(t, w.book[name], r, now)...)
		}
	}
	broken, brokenErr := w.breakers(ctx, r, topics, now)
	late, lateErr := w.late(ctx, r, topics, now)
	blind := map[string]bool{"breaker": brokenErr != nil, "late": lateErr != nil}
	list = slices.Concat(list, broken, late)
	maps.DeleteFunc(w.found, func(_ string, at time.Time) bool { return now.Sub(at) > bookLife })
	for _, f := range list {
		w.found[f.Key()] = now
	}
	return list, func(a Alert) bool {
		if blind[a.Kind] || (a.Kind != "shard_down" && down[a.Shard]) {
			return false
		}
		since := w.began
		if a.Topic != "" {
			since = w.whole
		}
		own := w.found[a.Key]
		return !since.IsZero() && (now.Sub(since) >= span(a.Kind, r) || !own.Before(since))
	}
}

// span is how long a watch has to look before it can say that something is over that it has not found itself.
func span(kind string, r Rules) time.Duration {
	switch kind {
	case "no_consumer":
		return r.NoConsumer.Std()
	case "topic_failing":
		return failingSpan
	case "dead":
		return bookLife
	case "shard_slow":
		return slowSpan
	}
	return shortSpan
}

var shardSubjects = map[string]string{
	"down": "is down", "partial": "answers only in part", "slow": "is slow", "memory": "is nearly full", "eviction": "may throw jobs away",
	"write_error": "cannot write its files", "link_down": "has a replica without its master", "clock": "has another time than this host",
	"stepped": "had its clock set", "restarted": "was restarted",
}

var shardCritical = []string{"down", "partial", "eviction", "write_error"}

// around is what is wrong with what the topics' jobs depend on.
func (w *Watch) around(r Rules, now time.Time) []Finding {
	var list []Finding
	if r.Shards {
		for _, f := range w.src.Shards() {
			severity := Warning
			if slices.Contains(shardCritical, f.Kind) {
				severity = Critical
			}
			list = append(list, Finding{
				Kind: "shard_" + f.Kind, Severity: severity, Subject: "shard " + f.Shard + " " + cmp.Or(shardSubjects[f.Kind], f.Kind), Detail: f.Detail, Shard: f.Shard,
			})
		}
	}
	if w.src.RegistryUp() {
		w.awayS = time.Time{}
	} else if w.awayS.IsZero() {
		w.awayS = now
	}
	if r.Registry && !w.awayS.IsZero() && now.Sub(w.awayS) >= registryWait {
		list = append(list, Finding{
			Kind: "registry", Severity: Critical, Subject: "the registry's database does not answer",
			Detail: "Pushes and callbacks go on with the topics last seen; nothing can be changed until it is back.",
		})
	}
	if r.Journal {
		if err := w.src.Journal(); err != nil {
			list = append(list, Finding{Kind: "journal", Severity: Critical, Subject: "the journal cannot be written", Detail: err.Error() + ". A push whose own line, in the request file, cannot be written is refused."})
		}
	}
	return list
}

// choose lists the topics to read: those to whose jobs something happened, those whose numbers are odd, and the first time all. With an error
// it lacks those of the shards that do not answer.
func (w *Watch) choose(ctx context.Context, now time.Time) ([]string, error) {
	known := w.src.Snapshot().Topics
	if w.swept.IsZero() {
		return slices.Collect(maps.Keys(known)), nil
	}
	active, err := w.src.Queue.Active(ctx, now.Add(-failingSpan))
	chosen := map[string]bool{}
	for _, name := range active {
		chosen[name] = true
	}
	for name, b := range w.book {
		if b.waiting() || b.unevenAt > 0 {
			chosen[name] = true
		}
	}
	if now.Sub(w.swept) >= sweepEvery { // a job that falls due and that nobody takes is no event
		w.swept = now
		counts, statsErr := w.src.Queue.Stats(ctx, slices.Collect(maps.Keys(known)))
		err = cmp.Or(err, statsErr)
		for name, n := range counts {
			chosen[name] = chosen[name] || n.Ready > 0
		}
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(chosen)), func(name string) bool { return !chosen[name] || known[name] == nil }), err
}

// read reads the chosen topics. Only whole numbers are entered in the books: those that lack a shard's cannot be compared with them.
func (w *Watch) read(ctx context.Context, now time.Time) (names []string, totals map[string]queue.TopicTotals, whole bool) {
	all := w.swept.IsZero()
	names, err := w.choose(ctx, now)
	totals, totalsErr := w.src.Queue.Totals(ctx, names)
	if cmp.Or(err, totalsErr) != nil {
		w.whole = time.Time{}
		return names, totals, false
	}
	w.enter(names, totals, now)
	switch {
	case all:
		w.swept = now
		if w.whole.IsZero() {
			w.whole = now
		}
	case w.whole.IsZero():
		w.swept = time.Time{} // what happened meanwhile may be longer ago than what counts as active
	}
	return names, totals, true
}

// enter brings the books up to date.
func (w *Watch) enter(names []string, totals map[string]queue.TopicTotals, now time.Time) {
	known := w.src.Snapshot().Topics
	for name, b := range w.book {
		if known[name] == nil || (!b.waiting() && now.Sub(b.marks[len(b.marks)-1].at) > bookLife) {
			delete(w.book, name)
		}
	}
	for _, name := range names {
		b := w.book[name]
		if b == nil {
			b = &topicBook{}
			w.book[name] = b
		}
		b.take(totals[name], now)
	}
}

func (b *topicBook) waiting() bool { return b.last.Ready > 0 }

// take notes what a topic is now.
func (b *topicBook) take(t queue.TopicTotals, now time.Time) {
	called := t.Total.Failed + t.Total.Delivered + t.Total.Snoozed
	before := b.last.Total.Failed + b.last.Total.Delivered + b.last.Total.Snoozed
	switch {
	case t.Ready == 0 || t.Running > 0 || called != before:
		b.idle = time.Time{}
	case b.idle.IsZero():
		b.idle = now
	}
	b.marks = append(b.marks, mark{now, t.Total.Failed, t.Total.Delivered, t.Total.Died})
	b.unevenAt++
	if x := t.Total; x.Pushed == x.Delivered+x.Deleted+x.Dropped+x.Replaced+living(t) {
		b.unevenAt = 0
	}
	for len(b.marks) > 1 && now.Sub(b.marks[0].at) > bookLife {
		b.marks = b.marks[1:]
	}
	b.last = t
}

// since is what a topic did in the last while.
func (b *topicBook) since(span time.Duration, now time.Time) (did mark) {
	if len(b.marks) == 0 {
		return did
	}
	last := b.marks[len(b.marks)-1]
	for _, m := range b.marks {
		if now.Sub(m.at) <= span {
			return mark{m.at, last.failed - m.failed, last.delivered - m.delivered, last.died - m.died}
		}
	}
	return did
}

// backlog says whether a topic falls behind; the numbers of some shards are enough to see that it does.
func backlog(t *registry.Topic, n queue.Stats, r Rules) []Finding {
	if limit := r.BacklogAge.Std(); t.State != registry.TopicActive || limit <= 0 || n.OldestReady <= limit {
		return nil
	}
	return []Finding{{
		Kind: "backlog", Severity: Warning, Subject: "topic " + t.Name + " falls behind", Topic: t.Name,
		Detail: fmt.Sprintf("%d jobs are due and wait, the oldest for %s.", n.Ready, n.OldestReady.Round(time.Second)),
	}}
}

// topic is what is wrong with one topic by its book.
func (w *Watch) topic(t *registry.Topic, b *topicBook, r Rules, now time.Time) []Finding {
	var list []Finding
	add := func(kind, severity, subject, detail string) {
		list = append(list, Finding{Kind: kind, Severity: severity, Subject: "topic " + t.Name + " " + subject, Detail: detail, Topic: t.Name})
	}
	if limit := r.NoConsumer.Std(); t.State == registry.TopicActive && limit > 0 && !b.idle.IsZero() && now.Sub(b.idle) >= limit {
		add("no_consumer", Critical, "is not consumed", fmt.Sprintf("%d jobs are due and nothing was called for %s: is a dispatcher running?", b.last.Ready, now.Sub(b.idle).Round(time.Second)))
	}
	did := b.since(failingSpan, now)
	if all := did.failed + did.delivered; r.FailingShare > 0 && all >= max(1, r.FailingLeast) && float64(did.failed) >= r.FailingShare*float64(all) {
		add("topic_failing", Warning, "fails", fmt.Sprintf("%d of %d attempts in the last five minutes failed.", did.failed, all))
	}
	if died := b.since(bookLife, now).died; r.DeadJobs > 0 && died >= r.DeadJobs {
		add("dead", Warning, "has dead jobs", fmt.Sprintf("%d jobs died in the last ten minutes; %d are dead altogether.", died, b.last.Stats.Dead))
	}
	if r.Ledger && b.unevenAt >= unevenRounds {
		x := b.last.Total
		add("ledger", Critical, "has a ledger that does not add up", fmt.Sprintf(
			"%d were accepted; %d delivered, %d deleted, %d dead ones deleted, %d replaced and %d live make %d. A shard may have lost data: see `wakecall recover`.",
			x.Pushed, x.Delivered, x.Deleted, x.Dropped, x.Replaced, living(b.last), x.Delivered+x.Deleted+x.Dropped+x.Replaced+living(b.last)))
	}
	return list
}

func living(t queue.TopicTotals) int64 { return t.Delayed + t.Ready + t.Running + t.Stats.Dead }

// breakers are topics whose endpoints are not called any more.
func (w *Watch) breakers(ctx context.Context, r Rules, topics []string, now time.Time) (list []Finding, err error) {
	if !r.Breaker {
		return nil, nil
	}
	limits, err := w.src.Queue.TopicLimits(ctx, topics) // with an error: those of the shards that answer
	for name, l := range limits {
		if !l.BreakerOpen.IsZero() && l.BreakerOpen.After(now.Add(-time.Minute)) {
			list = append(list, Finding{
				Kind: "breaker", Severity: Critical, Subject: "topic " + name + " has an endpoint that does not answer", Topic: name,
				Detail: fmt.Sprintf("%d calls failed in a row; one probe at a time is made until it answers. Its jobs keep their attempts.", l.Failures),
			})
		}
	}
	return list, err
}

// late are topics whose first calls begin late: those with an objective of their own, and the others when all topics together are late.
func (w *Watch) late(ctx context.Context, r Rules, topics []string, now time.Time) (list []Finding, err error) {
	common := r.Lateness.Std()
	everybody := false
	if common > 0 && len(topics) > 0 {
		all, err := w.src.Activity.Lateness(ctx, "", now.Add(-lateSpan))
		if err != nil {
			return nil, err
		}
		everybody = all.Quantile(0.99) > common
	}
	asked := 0
	for _, name := range topics {
		limit, own := r.objective(name)
		if limit <= 0 || (!own && (!everybody || asked >= lateTopics)) {
			continue
		}
		if !own {
			asked++
		}
		h, topicErr := w.src.Activity.Lateness(ctx, name, now.Add(-lateSpan))
		err = cmp.Or(err, topicErr)
		if topicErr != nil || h.Quantile(0.99) <= limit {
			continue
		}
		list = append(list, Finding{
			Kind: "late", Severity: Warning, Subject: "topic " + name + " is called late", Topic: name,
			Detail: fmt.Sprintf("The 99th percentile of the last minute is %s after the due time; the objective is %s.", h.Quantile(0.99).Round(time.Millisecond), limit),
		})
	}
	return list, err
}

// Dead lists what died since somebody asked last, on whatever host, of topics with addresses.
func (w *Watch) Dead(ctx context.Context) []Dead {
	if w.whole.IsZero() { // it does not know the counts
		return nil
	}
	counts := map[string]Deaths{}
	for name, b := range w.book {
		if n := b.last.Total.Died; w.died == nil || n != w.died[name] {
			counts[name] = Deaths{Count: n, Fell: n < w.died[name]}
		}
	}
	if w.died != nil && len(counts) == 0 {
		return nil
	}
	claim, cancel := context.WithTimeout(ctx, storeLimit)
	defer cancel()
	news, err := w.src.ClaimDeaths(claim, counts)
	if err == nil {
		if w.died == nil {
			w.died = map[string]int64{}
		}
		for name, n := range counts {
			w.died[name] = n.Count
		}
	}
	var list []Dead
	for name, n := range news {
		if t := w.src.Snapshot().Topics[name]; t != nil && len(t.Emails) > 0 {
			list = append(list, Dead{Topic: name, Recipients: t.Emails, Count: n, Last: w.lastDead(ctx, name, n)})
		}
	}
	return list
}

func (w *Watch) lastDead(ctx context.Context, topic string, n int64) []DeadJob {
	attempts, err := w.src.Activity.Attempts(ctx, topic, 100)
	if err != nil && !queue.IsPartial(err) {
		return nil
	}
	var jobs []DeadJob
	for _, a := range attempts {
		if int64(len(jobs)) < n && (a.Outcome == "dead" || a.Outcome == "expired") {
			text := a.Error
			if text == "" {
				text = a.Reason
			}
			jobs = append(jobs, DeadJob{ID: a.ID, Error: text})
		}
	}
	return jobs
}
