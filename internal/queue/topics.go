package queue

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// TopicConf holds a topic's settings that the scripts need.
type TopicConf struct {
	Name        string
	Paused      bool // or offline: no job is reserved
	TTR         time.Duration
	MaxAttempts int
	MaxInFlight int     // 0: no limit
	RateLimit   float64 // jobs per second; 0: no limit
	Pull        bool    // workers take its jobs; dispatchers do not see them
	Drop        bool    // an expired job is removed instead of being dead
	// Remember is how long finished jobs are remembered, or RememberLast; 0: they are not.
	Remember  time.Duration
	last, all int  // with RememberLast: how many jobs a shard remembers of the topic, and a bucket of all such topics
	Gone      bool // it no longer has settings
}

// The mode of a topic in its conf.
const (
	modePull = 1 << iota
	modeDrop
)

func (c *TopicConf) encode() string {
	paused := 0
	if c.Paused {
		paused = 1
	}
	if c.Gone {
		return ""
	}
	conf := fmt.Sprintf("%d %d %d %d %s", c.TTR.Milliseconds(), c.MaxAttempts, paused, c.MaxInFlight,
		strconv.FormatFloat(c.RateLimit, 'g', -1, 64))
	mode := 0
	if c.Pull {
		mode |= modePull
	}
	if c.Drop {
		mode |= modeDrop
	}
	if mode != 0 || c.Remember != 0 { // hosts of earlier versions write none
		conf += " " + strconv.Itoa(mode)
	}
	return conf + c.encodeRemember()
}

// SetTopics sets the limits of all topics on every shard. all yields the current topics; the queue calls it again
// whenever a shard may have other limits, so a shard that is down gets them when it answers. Each active shard gets its
// share of MaxInFlight, at least one, and of RateLimit, and enforces it exactly.
func (q *Queue) SetTopics(ctx context.Context, all iter.Seq[TopicConf]) error {
	return q.changeTopics(ctx, all, nil)
}

// UpdateTopics sets the limits of topics that changed since SetTopics. A process that did not call SetTopics leaves the
// other topics to one that did.
func (q *Queue) UpdateTopics(ctx context.Context, changed []TopicConf) error {
	return q.changeTopics(ctx, nil, changed)
}

func (q *Queue) changeTopics(ctx context.Context, all iter.Seq[TopicConf], changed []TopicConf) error {
	q.mu.Lock()
	if all != nil {
		q.topics = all
	}
	q.topicsVersion++
	q.mu.Unlock()
	return q.syncTopics(ctx, changed, (*q.shards.Load())...)
}

// syncTopics updates shards to the current version of the topics' limits: with the topics that changed since the
// previous version, or with all.
func (q *Queue) syncTopics(ctx context.Context, changed []TopicConf, shards ...*Shard) error {
	q.mu.Lock()
	all, version := q.topics, q.topicsVersion
	q.mu.Unlock()
	if all == nil && changed == nil {
		return nil
	}
	var errs []error
	for _, s := range shards {
		if err := s.configure(ctx, version, all, changed, len(*q.takers.Load())); err != nil {
			errs = append(errs, fmt.Errorf("set the limits of topics: %w", err))
		}
	}
	return errors.Join(errs...)
}

// share returns a topic's limits for each of n shards. Jobs are spread evenly, so equal shares lose little.
func (c TopicConf) share(n int) TopicConf {
	if n > 1 && c.MaxInFlight > 0 {
		c.MaxInFlight = max(1, c.MaxInFlight/n)
	}
	c.RateLimit /= float64(max(1, n))
	c.last, c.all = LastFinished/max(1, n), MaxLast/max(1, n)
	return c
}

const topicStep = 200 // topics in one script call

func (s *Shard) configure(
	ctx context.Context, version uint64, all iter.Seq[TopicConf], changed []TopicConf, shards int,
) error {
	s.confMu.Lock()
	defer s.confMu.Unlock()
	if s.confVersion >= version {
		return nil
	}
	if changed != nil && (all == nil || s.confVersion == version-1) {
		all = slices.Values(changed)
	}
	s.confVersion = 0 // unknown if a call fails
	byBucket := make([][]any, s.Buckets())
	for c := range all {
		c = c.share(shards)
		c.all = max(1, c.all/s.Buckets())
		for _, b := range s.bucketsOf(c.Name) {
			byBucket[b] = append(byBucket[b], c.Name, c.encode())
			if len(byBucket[b]) < 2*topicStep {
				continue
			}
			if _, err := s.again(ctx, b, "configure", byBucket[b]...); err != nil {
				return err
			}
			byBucket[b] = byBucket[b][:0]
		}
	}
	for b, rest := range byBucket {
		if len(rest) == 0 {
			continue
		}
		if _, err := s.again(ctx, b, "configure", rest...); err != nil {
			return err
		}
	}
	s.confVersion = version
	return nil
}

// forgetTopics makes the next configure send all limits: the server may be another one.
func (s *Shard) forgetTopics() {
	s.confMu.Lock()
	s.confVersion = 0
	s.confMu.Unlock()
}

// Stats counts the jobs of topics over all shards. With a *PartialError the numbers are those of the shards that
// answered.
func (q *Queue) Stats(ctx context.Context, topics []string) (map[string]Stats, error) {
	sum := make(map[string]Stats, len(topics))
	for _, t := range topics {
		sum[t] = Stats{}
	}
	err := q.eachTopic(topics, topicStep, func(s *Shard, bucket int, some []string) error {
		reply, err := s.list(ctx, bucket, len(some), "stats", anys(some)...)
		if err != nil {
			return err
		}
		for i, topic := range some {
			st := sum[topic]
			if err := st.addCounts(reply[i]); err != nil {
				return fmt.Errorf("count the jobs of %s on shard %s: %w", topic, s.name, err)
			}
			sum[topic] = st
		}
		return nil
	})
	return sum, err
}

// countKeys maps a state to the key that counts the jobs of topics in it.
var countKeys = map[State]string{Delayed: "nd", Ready: "nr", Running: "nu", Dead: "nx"}

// allCounts lists the keys in the order of a job's states: a job that changes its state while they are read one after
// the other may be counted twice, but is not missed.
var allCounts = []string{countKeys[Delayed], countKeys[Ready], countKeys[Running], countKeys[Dead]}

// countsStep is roughly the number of topics that one call of the script counts.
const countsStep = 1000

// Counts counts the jobs of all topics that have jobs, over all shards, without OldestReady. It takes time for topics
// that have had jobs, and none for others. With a *PartialError the numbers are from the shards that answered.
func (q *Queue) Counts(ctx context.Context) (map[string]Stats, error) {
	sum := map[string]Stats{}
	err := q.eachBucket(func(s *Shard, bucket int) error { return s.countAll(ctx, bucket, sum) })
	return sum, err
}

func (s *Shard) countAll(ctx context.Context, bucket int, sum map[string]Stats) error {
	for _, key := range allCounts {
		if err := s.counts(ctx, bucket, key, sum); err != nil {
			return err
		}
	}
	return nil
}

func (s *Shard) counts(ctx context.Context, bucket int, state string, sum map[string]Stats) error {
	for cursor := "0"; ; {
		reply, err := s.list(ctx, bucket, -1, "counts", state, cursor, countsStep)
		if err != nil {
			return err
		}
		for i := 1; i+1 < len(reply); i += 2 {
			topic, _ := reply[i].(string)
			text, _ := reply[i+1].(string)
			if n := number(text); n > 0 {
				st := sum[topic]
				*map[string]*int64{"nd": &st.Delayed, "nr": &st.Ready, "nu": &st.Running, "nx": &st.Dead}[state] += n
				sum[topic] = st
			}
		}
		if cursor, _ = reply[0].(string); cursor == "0" {
			return nil
		}
	}
}

// addCounts adds the counts of one shard: delayed, ready, running, dead, ms since the oldest ready job fell due.
func (st *Stats) addCounts(counts any) error {
	list, _ := counts.([]any)
	n := ints(list)
	if len(n) != 5 {
		return errReply
	}
	st.Add(Stats{
		Delayed: n[0], Ready: n[1], Running: n[2], Dead: n[3], OldestReady: time.Duration(n[4]) * time.Millisecond,
	})
	return nil
}

// Members lists the topics of a namespace that have jobs, by name. With a *PartialError they are from the shards that
// answered.
func (q *Queue) Members(ctx context.Context, namespace string) ([]string, error) {
	return q.members(ctx, namespace, allCounts)
}

func (q *Queue) members(ctx context.Context, namespace string, keys []string) ([]string, error) {
	found := map[string]bool{}
	pattern := strings.TrimSuffix(namespace, "*") + "*"
	err := q.eachBucket(func(s *Shard, bucket int) error {
		for _, key := range keys {
			each := s.client.HScan(ctx, prefix(bucket)+key, 0, pattern, 1000).Iterator()
			for each.Next(ctx) {
				if topic := each.Val(); topic != namespace {
					found[topic] = true
				}
				each.Next(ctx) // the count
			}
			if err := each.Err(); err != nil {
				return s.failed(ctx, bucket, err)
			}
		}
		return nil
	})
	return slices.Sorted(maps.Keys(found)), err
}

// isNamespace reports whether a name stands for the topics of a namespace.
func isNamespace(topic string) bool { return strings.HasSuffix(topic, ".*") }

// membersOf returns the topics that a name stands for: those of a namespace that have jobs in a state ("" for any), or
// the topic itself.
func (q *Queue) membersOf(ctx context.Context, topic string, state State) ([]string, error) {
	if !isNamespace(topic) {
		return []string{topic}, nil
	}
	if key, ok := countKeys[state]; ok {
		return q.members(ctx, topic, []string{key})
	}
	return q.Members(ctx, topic) // finished jobs are not counted
}

// DropTopic deletes all jobs of a topic, or of all topics of a namespace, in steps, and returns their number. After it
// returns without an error, none of their callbacks starts; those that have started go on.
func (q *Queue) DropTopic(ctx context.Context, topic string) (int, error) {
	members, err := q.membersOf(ctx, topic, "")
	if err != nil {
		return 0, err
	}
	total, ran := 0, false
	for _, member := range members {
		n, running, err := q.dropTopic(ctx, member)
		total, ran = total+n, ran || running
		if err != nil {
			return total, err
		}
	}
	if ran {
		return total, outwaitStart(ctx)
	}
	return total, nil
}

// dropTopic deletes the jobs of one topic. running reports that some of them were running, or may have been.
func (q *Queue) dropTopic(ctx context.Context, topic string) (total int, running bool, err error) {
	for _, s := range *q.shards.Load() {
		for {
			o, err := s.do(ctx, s.bucketOf(topic), Memory, "drop", topic, deadStep)
			reply, ok := o.value.([]any)
			if err == nil && (!ok || len(reply) != 4) {
				err = errReply
			}
			if err != nil {
				return total, running, fmt.Errorf("delete the jobs of %s: %w", topic, err)
			}
			n, _ := reply[0].(int64)
			total, running = total+int(n), running || o.repeated || reply[3] == int64(1)
			if reply[1] == int64(0) {
				revision, _ := reply[2].(int64)
				if err := q.record(ctx, Cleared, Job{Topic: topic, Shard: s.name, Revision: revision}); err != nil {
					return total, running, err
				}
				break
			}
		}
	}
	return total, running, nil
}

// TopicLimits holds the window and breaker of a topic, from the shard with the worst ones.
type TopicLimits struct {
	Window      int64     // calls in flight that its endpoint is allowed
	Failures    int64     // in a row
	BreakerOpen time.Time // when it allows the next probe; zero: it is closed
}

// TopicLimits reads the windows and breakers of topics. With a *PartialError the answer is from the shards that
// answered.
func (q *Queue) TopicLimits(ctx context.Context, topics []string) (map[string]TopicLimits, error) {
	all := make(map[string]TopicLimits, len(topics))
	err := q.eachTopic(topics, topicStep, func(s *Shard, bucket int, some []string) error {
		reply, err := s.list(ctx, bucket, 1+3*len(some), "limits", anys(some)...)
		if err != nil {
			return err
		}
		counts := ints(reply)
		for i, topic := range some {
			n := counts[1+3*i:]
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
