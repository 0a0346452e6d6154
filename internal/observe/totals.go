package observe

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// Totals counts what happened to a topic's jobs. The scripts count each event in the step that causes it, so at any
// instant Pushed = Delivered + Deleted + Dropped + Replaced + the live jobs. The history stores it, with short names.
type Totals struct {
	Pushed    int64 `json:"p,omitempty"` // accepted, including those that replaced another
	Delivered int64 `json:"d,omitempty"`
	Failed    int64 `json:"f,omitempty"` // attempts
	Retried   int64 `json:"r,omitempty"` // failed attempts that were followed by another
	Snoozed   int64 `json:"s,omitempty"` // attempts that asked to be called again later
	Deleted   int64 `json:"x,omitempty"` // before they were delivered or died
	Died      int64 `json:"k,omitempty"` // out of attempts, gone or expired
	Expired   int64 `json:"e,omitempty"` // of these, expired ones
	Redriven  int64 `json:"v,omitempty"` // dead jobs made ready again
	Dropped   int64 `json:"o,omitempty"` // dead jobs deleted
	Replaced  int64 `json:"y,omitempty"`
}

// Counters returns the counters in the order of totalNames.
func (t *Totals) Counters() []*int64 {
	return []*int64{
		&t.Pushed, &t.Delivered, &t.Failed, &t.Retried, &t.Snoozed, &t.Deleted, &t.Died, &t.Expired, &t.Redriven,
		&t.Dropped, &t.Replaced,
	}
}

// totalNames are the names of the counters in t:TOPIC, in that order, as in lua/shared/totals.lua.
var totalNames = []string{
	"pushed", "delivered", "failed", "retried", "snoozed", "deleted", "died", "expired", "redriven", "dropped",
	"replaced",
}

// set sets the counter of a name.
func (t *Totals) set(name string, n int64) {
	if i := slices.Index(totalNames, name); i >= 0 {
		*t.Counters()[i] = n
	}
}

// Add adds what happened to other jobs.
func (t *Totals) Add(o Totals) {
	mine, theirs := t.Counters(), o.Counters()
	for i := range mine {
		*mine[i] += *theirs[i]
	}
}

// TopicTotals holds the counts of a topic at one instant of each shard.
type TopicTotals struct {
	Total Totals
	Today Totals            // since midnight, UTC, by Redis's clock
	Days  map[string]Totals // earlier days on which something happened, as 20060102; at most the last 40
	Died  map[string]int64  // Total.Died by the shard that counts it, if any
	store.Stats
}

// Totals reads the totals of topics, summed over all shards. With a *PartialError the numbers are from the shards that
// answered.
func (q Figures) Totals(ctx context.Context, topics []string) (map[string]TopicTotals, error) {
	sum := make(map[string]TopicTotals, len(topics))
	for _, t := range topics {
		sum[t] = TopicTotals{}
	}
	err := q.Shards.EachTopic(topics, store.TopicStep, func(b *store.Bucket, some []string) error {
		return b.Stats(ctx, some, true, func(topic string, st store.Stats, totals any, now time.Time) error {
			t := sum[topic]
			t.Stats.Add(st)
			earlier := t.Total.Died
			err := t.read(now, totals)
			if n := t.Total.Died - earlier; n > 0 {
				if t.Died == nil {
					t.Died = map[string]int64{}
				}
				t.Died[b.Name()] += n
			}
			sum[topic] = t
			return err
		})
	})
	return sum, err
}

// read adds the totals of one shard: names and values of t:TOPIC. Those named day:N are the totals before the first
// event of a day, so a day's are the difference to the next such day.
func (t *TopicTotals) read(now time.Time, hash any) error {
	pairs, ok := hash.([]any)
	if !ok {
		return store.ErrReply
	}
	var total Totals
	before := map[int64]Totals{}
	for i := 0; i+1 < len(pairs); i += 2 {
		name, value := store.Text(pairs[i]), store.Text(pairs[i+1])
		if day, is := strings.CutPrefix(name, "day:"); is {
			before[store.Number(day)] = unpacked(value)
		} else {
			total.set(name, store.Number(value))
		}
	}
	t.Total.Add(total)
	days := slices.Sorted(maps.Keys(before))
	for i, day := range days {
		after := total
		if i+1 < len(days) {
			after = before[days[i+1]]
		}
		if day == now.Unix()/secondsOfDay {
			t.Today.Add(minus(after, before[day]))
		} else {
			t.addDay(day, minus(after, before[day]))
		}
	}
	return nil
}

const secondsOfDay = 86400

func (t *TopicTotals) addDay(number int64, day Totals) {
	name := time.Unix(number*secondsOfDay, 0).UTC().Format("20060102")
	if t.Days == nil {
		t.Days = map[string]Totals{}
	}
	d := t.Days[name]
	d.Add(day)
	t.Days[name] = d
}

func unpacked(s string) (t Totals) {
	fields := t.Counters()
	for i, n := range strings.Fields(s) {
		if i < len(fields) {
			*fields[i] = store.Number(n)
		}
	}
	return t
}

func minus(a, b Totals) Totals {
	x, y := a.Counters(), b.Counters()
	for i := range x {
		*x[i] -= *y[i]
	}
	return a
}

// Counts counts the jobs of all topics that have jobs, over all shards, and those of namespaces with settings. With a
// *PartialError the numbers are from the shards that answered.
func (q Figures) Counts(ctx context.Context) (map[string]store.Stats, error) {
	sum := map[string]store.Stats{}
	err := q.Shards.EachBucket(func(b *store.Bucket) error { return b.CountAll(ctx, "", "", sum) })
	return sum, err
}

// activeStep is how many topics one call of the script lists.
const activeStep = 1000

// Active lists the topics whose jobs had an event since a time, in no order. With a *PartialError they are from the
// shards that answered.
func (q Figures) Active(ctx context.Context, since time.Time) ([]string, error) {
	seen := map[string]bool{}
	ago := max(0, time.Since(since).Milliseconds())
	err := q.Shards.EachBucket(func(b *store.Bucket) error { return active(ctx, b, ago, seen) })
	list := make([]string, 0, len(seen))
	for t := range seen {
		list = append(list, t)
	}
	return list, err
}

func active(ctx context.Context, b *store.Bucket, ago int64, seen map[string]bool) error {
	for from, skip := "", 0; ; {
		list, err := b.CallList(ctx, -1, activeScript, ago, from, skip, activeStep)
		if err != nil {
			return err
		}
		for _, t := range list[1:] {
			seen[store.Text(t)] = true
		}
		if len(list) <= activeStep {
			return nil
		}
		// Skipping all that were listed would make Redis walk over them each time.
		if last := store.Text(list[0]); last != from {
			from, skip = last, 0
		} else {
			skip += activeStep
		}
	}
}
