package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Totals are what happened to a topic's jobs. The scripts count it in the same step in which they do it, so at any instant
// Pushed = Delivered + Deleted + Dropped + Replaced + the jobs that live.
type Totals struct {
	Pushed    int64 // accepted, with those that replaced another
	Delivered int64
	Failed    int64 // attempts
	Retried   int64 // of those, how many were followed by another
	Snoozed   int64 // attempts that asked to be called again
	Deleted   int64 // before they were called or died
	Died      int64 // out of attempts, gone or expired
	Expired   int64 // of those, for their age
	Redriven  int64 // dead ones put back
	Dropped   int64 // dead ones deleted
	Replaced  int64
}

// fields are in the order of TOTALS in common.lua.
func (t *Totals) fields() []*int64 {
	return []*int64{
		&t.Pushed, &t.Delivered, &t.Failed, &t.Retried, &t.Snoozed, &t.Deleted, &t.Died, &t.Expired, &t.Redriven, &t.Dropped, &t.Replaced,
	}
}

const totalNames = "pdfrzxkevoy"

func (t *Totals) add(o Totals) {
	mine, theirs := t.fields(), o.fields()
	for i := range mine {
		*mine[i] += *theirs[i]
	}
}

// TopicTotals is a topic at one instant of each shard.
type TopicTotals struct {
	Total Totals
	Today Totals            // since midnight, UTC, by Redis's clock
	Days  map[string]Totals // earlier days on which something happened, as 20060102; at most the last 40
	Stats
}

// PartialError is an answer without what the named shards would have said.
type PartialError struct {
	Shards []string
	Err    error // of the first
}

func (e *PartialError) Error() string {
	return fmt.Sprintf("without shard %s: %v", strings.Join(e.Shards, ", "), e.Err)
}

func (e *PartialError) Unwrap() error { return e.Err }

// onEach asks every bucket of every shard about its topics, in steps. What fails makes a *PartialError; the rest is done.
func (q *Queue) onEach(topics []string, step int, ask func(s *Shard, bucket int, topics []string) error) error {
	var partial *PartialError
	for _, s := range *q.shards.Load() {
		err := s.eachStep(topics, step, func(bucket int, some []string) error { return ask(s, bucket, some) })
		if err == nil {
			continue
		}
		if partial == nil {
			partial = &PartialError{Err: err}
		}
		partial.Shards = append(partial.Shards, s.name)
	}
	if partial == nil {
		return nil
	}
	return partial
}

func (s *Shard) eachStep(topics []string, step int, ask func(bucket int, topics []string) error) error {
	byBucket := make([][]string, len(s.nodes))
	for _, t := range topics {
		b := s.bucketOf(t)
		byBucket[b] = append(byBucket[b], t)
	}
	for b, names := range byBucket {
		for some := range slices.Chunk(names, step) {
			if err := ask(b, some); err != nil {
				return err
			}
		}
	}
	return nil
}

func anys(texts []string) []any {
	list := make([]any, len(texts))
	for i, t := range texts {
		list[i] = t
	}
	return list
}

// Totals reads what happened to the jobs of topics, summed over all shards. With a *PartialError the numbers are those of the shards that
// answered.
func (q *Queue) Totals(ctx context.Context, topics []string) (map[string]TopicTotals, error) {
	sum := make(map[string]TopicTotals, len(topics))
	for _, t := range topics {
		sum[t] = TopicTotals{Days: map[string]Totals{}}
	}
	err := q.onEach(topics, topicStep, func(s *Shard, bucket int, some []string) error {
		v, err := s.again(ctx, bucket, s.scripts.totals, anys(some)...)
		if err != nil {
			return err
		}
		reply, ok := v.([]any)
		if !ok || len(reply) != 1+2*len(some) {
			return fmt.Errorf("read the totals of shard %s: %w", s.name, errReply)
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

// read adds what one shard says.
func (t *TopicTotals) read(today int64, counts, hash any) error {
	n, ok := counts.([]any)
	if !ok || len(n) != 5 {
		return errReply
	}
	t.addCounts(n)
	pairs, ok := hash.([]any)
	if !ok {
		return errReply
	}
	have := map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		name, _ := pairs[i].(string)
		have[name], _ = pairs[i+1].(string)
	}
	var total, began Totals
	for i, name := range strings.Split(totalNames, "") {
		*total.fields()[i] = number(have[name])
		*began.fields()[i] = number(have["s"+name])
	}
	t.Total.add(total)
	last := number(have["day"]) // 0 when nothing ever happened
	day := minus(total, began)
	if last == today {
		t.Today.add(day)
	} else if last > 0 {
		t.addDay(last, day)
	}
	for name, packed := range have {
		if of, is := strings.CutPrefix(name, "D:"); is {
			t.addDay(number(of), unpacked(packed))
		}
	}
	return nil
}

func (t *TopicTotals) addDay(number int64, day Totals) {
	name := time.Unix(number*86400, 0).UTC().Format("20060102")
	d := t.Days[name]
	d.add(day)
	t.Days[name] = d
}

func unpacked(s string) (t Totals) {
	fields := t.fields()
	for i, n := range strings.Fields(s) {
		if i < len(fields) {
			*fields[i] = number(n)
		}
	}
	return t
}

func minus(a, b Totals) Totals {
	x, y := a.fields(), b.fields()
	for i := range x {
		*x[i] -= *y[i]
	}
	return a
}

func number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}

// activeStep is how many topics one call of the script lists.
const activeStep = 1000

// Active lists the topics to whose jobs something happened since a time, in no order. With a *PartialError they are those of the shards
// that answered.
func (q *Queue) Active(ctx context.Context, since time.Time) ([]string, error) {
	seen := map[string]bool{}
	ago := max(0, time.Since(since).Milliseconds())
	err := q.everywhere(func(s *Shard, bucket int) error { return s.active(ctx, bucket, ago, seen) })
	list := make([]string, 0, len(seen))
	for t := range seen {
		list = append(list, t)
	}
	return list, err
}

func (s *Shard) active(ctx context.Context, bucket int, ago int64, seen map[string]bool) error {
	for skip := 0; ; skip += activeStep {
		v, err := s.again(ctx, bucket, s.scripts.active, ago, activeStep, skip)
		if err != nil {
			return err
		}
		list, ok := v.([]any)
		if !ok {
			return fmt.Errorf("list the active topics of shard %s: %w", s.name, errReply)
		}
		for _, t := range list {
			name, _ := t.(string)
			seen[name] = true
		}
		if len(list) < activeStep {
			return nil
		}
	}
}

// findStep is how many topics one call of the script looks into: well under a millisecond of Redis.
const findStep = 250

// Find looks for an id in topics. With a *PartialError the jobs are those of the shards that answered.
func (q *Queue) Find(ctx context.Context, id string, topics []string) ([]*Job, error) {
	var found []*Job
	err := q.onEach(topics, findStep, func(s *Shard, bucket int, some []string) error {
		args := make([]any, 1, 1+2*len(some))
		args[0] = id
		for _, t := range some {
			args = append(args, t, s.address(t, id))
		}
		v, err := s.again(ctx, bucket, s.scripts.find, args...)
		if err != nil {
			return err
		}
		reply, ok := v.([]any)
		if !ok || len(reply)%2 != 1 {
			return fmt.Errorf("look for %s on shard %s: %w", id, s.name, errReply)
		}
		for i := 1; i < len(reply); i += 2 {
			k, _ := reply[i].(int64)
			if k < 1 || int(k) > len(some) {
				return fmt.Errorf("look for %s on shard %s: %w", id, s.name, errReply)
			}
			j, err := s.described(some[k-1], reply[i+1])
			if err != nil {
				return err
			}
			found = append(found, j)
		}
		return nil
	})
	return found, err
}

// Forecast is when the jobs of a topic fall due.
type Forecast struct {
	Now     time.Time // by Redis's clock; the first minute and hour begin here
	Minutes [60]int64
	Hours   [24]int64
}

// forecastStep is how many pages (a minute of a topic each, at most 1,023 jobs) one call of the script looks at.
const forecastStep = 1000

// maxForecastPages bounds what a forecast looks at on one shard: that many pages hold 20 million jobs.
const maxForecastPages = 20 * forecastStep

// Forecast counts the jobs of a topic that fall due in each of the next 60 minutes and 24 hours; those farther ahead than two minutes are
// known to the minute in which they fall due. With a *PartialError the numbers are those of the shards that answered.
func (q *Queue) Forecast(ctx context.Context, topic string) (f Forecast, err error) {
	err = q.onEach([]string{topic}, 1, func(s *Shard, bucket int, _ []string) error {
		for skip := 0; skip < maxForecastPages; skip += forecastStep {
			v, err := s.again(ctx, bucket, s.scripts.forecast, topic, skip, forecastStep)
			if err != nil {
				return err
			}
			n, err := f.add(v)
			if err != nil {
				return fmt.Errorf("forecast %s on shard %s: %w", topic, s.name, err)
			}
			if n < forecastStep {
				return nil
			}
		}
		return nil
	})
	return f, err
}

func (f *Forecast) add(v any) (pages int64, err error) {
	reply, ok := v.([]any)
	if !ok || len(reply) != 4 {
		return 0, errReply
	}
	minutes, okM := reply[2].([]any)
	hours, okH := reply[3].([]any)
	if !okM || !okH || len(minutes) != len(f.Minutes) || len(hours) != len(f.Hours) {
		return 0, errReply
	}
	f.Now = millis(reply[0])
	for i := range f.Minutes {
		n, _ := minutes[i].(int64)
		f.Minutes[i] += n
	}
	for i := range f.Hours {
		n, _ := hours[i].(int64)
		f.Hours[i] += n
	}
	pages, _ = reply[1].(int64)
	return pages, nil
}

// TopicLimits is how the calls of a topic go on the shard where they go worst.
type TopicLimits struct {
	Window      int64     // calls in flight that its endpoint is trusted with
	Failures    int64     // in a row
	BreakerOpen time.Time // until when nobody but one probe is called; zero: it is closed
}

// TopicLimits reads how the calls of topics go. With a *PartialError the answer is that of the shards that answered.
func (q *Queue) TopicLimits(ctx context.Context, topics []string) (map[string]TopicLimits, error) {
	all := make(map[string]TopicLimits, len(topics))
	err := q.onEach(topics, topicStep, func(s *Shard, bucket int, some []string) error {
		v, err := s.again(ctx, bucket, s.scripts.limits, anys(some)...)
		if err != nil {
			return err
		}
		reply, ok := v.([]any)
		if !ok || len(reply) != 1+3*len(some) {
			return fmt.Errorf("read how calls go on shard %s: %w", s.name, errReply)
		}
		for i, topic := range some {
			var n [3]int64
			for k := range n {
				n[k], _ = reply[1+3*i+k].(int64)
			}
			l := TopicLimits{Window: n[0], Failures: n[1]}
			if n[2] > 0 {
				l.BreakerOpen = millis(n[2])
			}
			if was, seen := all[topic]; !seen || worse(l, was) {
				all[topic] = l
			}
		}
		return nil
	})
	return all, err
}

func worse(a, b TopicLimits) bool {
	if !a.BreakerOpen.Equal(b.BreakerOpen) {
		return a.BreakerOpen.After(b.BreakerOpen)
	}
	return a.Failures > b.Failures
}

// IsPartial says whether an error only means that some shards did not answer, beside an answer of the others.
func IsPartial(err error) bool {
	var partial *PartialError
	return errors.As(err, &partial)
}
