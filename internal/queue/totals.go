package queue

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Totals counts what happened to a topic's jobs. The scripts count each event in the step that causes it, so at any
// instant Pushed = Delivered + Deleted + Dropped + Replaced + the live jobs.
type Totals struct {
	Pushed    int64 // accepted, including those that replaced another
	Delivered int64
	Failed    int64 // attempts
	Retried   int64 // failed attempts that were followed by another
	Snoozed   int64 // attempts that asked to be called again later
	Deleted   int64 // before they were delivered or died
	Died      int64 // out of attempts, gone or expired
	Expired   int64 // of these, expired ones
	Redriven  int64 // dead jobs made ready again
	Dropped   int64 // dead jobs deleted
	Replaced  int64
}

// Counters returns the counters in the order of TOTALS in lua/shared/base.lua.
func (t *Totals) Counters() []*int64 {
	return []*int64{
		&t.Pushed, &t.Delivered, &t.Failed, &t.Retried, &t.Snoozed, &t.Deleted, &t.Died, &t.Expired, &t.Redriven,
		&t.Dropped, &t.Replaced,
	}
}

const totalNames = "pdfrzxkevoy"

// set sets the counter of a letter of totalNames.
func (t *Totals) set(name string, n int64) {
	if i := strings.Index(totalNames, name); i >= 0 && len(name) == 1 {
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
	Stats
}

// Totals reads the totals of topics, summed over all shards. With a *PartialError the numbers are from the shards that
// answered.
func (q *Queue) Totals(ctx context.Context, topics []string) (map[string]TopicTotals, error) {
	sum := make(map[string]TopicTotals, len(topics))
	for _, t := range topics {
		sum[t] = TopicTotals{}
	}
	err := q.eachTopic(topics, topicStep, func(s *Shard, bucket int, some []string) error {
		reply, err := s.list(ctx, bucket, 1+2*len(some), "totals", anys(some)...)
		if err != nil {
			return err
		}
		today, _ := reply[0].(int64)
		for i, topic := range some {
			t := sum[topic]
			if err := t.read(today, reply[1+2*i], reply[2+2*i]); err != nil {
				return fmt.Errorf("read the totals of %s on shard %s: %w", topic, s.name, err)
			}
			sum[topic] = t
		}
		return nil
	})
	return sum, err
}

// read adds the counts of one shard.
func (t *TopicTotals) read(today int64, counts, hash any) error {
	if err := t.addCounts(counts); err != nil {
		return err
	}
	pairs, ok := hash.([]any)
	if !ok {
		return errReply
	}
	var total, began Totals
	last := int64(0) // the day of the last event; 0 if there was none
	for i := 0; i+1 < len(pairs); i += 2 {
		name, _ := pairs[i].(string)
		value, _ := pairs[i+1].(string)
		if day, is := strings.CutPrefix(name, "D:"); is {
			t.addDay(number(day), unpacked(value))
		} else if name == "day" {
			last = number(value)
		} else if what, is := strings.CutPrefix(name, "s"); is {
			began.set(what, number(value))
		} else {
			total.set(name, number(value))
		}
	}
	t.Total.Add(total)
	day := minus(total, began)
	if last == today {
		t.Today.Add(day)
	} else if last > 0 {
		t.addDay(last, day)
	}
	return nil
}

func (t *TopicTotals) addDay(number int64, day Totals) {
	name := time.Unix(number*86400, 0).UTC().Format("20060102")
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
			*fields[i] = number(n)
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

// activeStep is how many topics one call of the script lists.
const activeStep = 1000

// Active lists the topics whose jobs had an event since a time, in no order. With a *PartialError they are from the
// shards that answered.
func (q *Queue) Active(ctx context.Context, since time.Time) ([]string, error) {
	seen := map[string]bool{}
	ago := max(0, time.Since(since).Milliseconds())
	err := q.eachBucket(func(s *Shard, bucket int) error { return s.active(ctx, bucket, ago, seen) })
	list := make([]string, 0, len(seen))
	for t := range seen {
		list = append(list, t)
	}
	return list, err
}

func (s *Shard) active(ctx context.Context, bucket int, ago int64, seen map[string]bool) error {
	for from, skip := "", 0; ; {
		list, err := s.list(ctx, bucket, -1, "active", ago, from, skip, activeStep)
		if err != nil {
			return err
		}
		for _, t := range list[1:] {
			name, _ := t.(string)
			seen[name] = true
		}
		if len(list) <= activeStep {
			return nil
		}
		// Skipping all that were listed would make Redis walk over them each time.
		if last, _ := list[0].(string); last != from {
			from, skip = last, 0
		} else {
			skip += activeStep
		}
	}
}
