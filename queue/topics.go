package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// TopicConf is what the scripts need to know of a topic.
type TopicConf struct {
	Name        string
	Paused      bool // or offline: nothing is reserved
	TTR         time.Duration
	MaxAttempts int
	MaxInFlight int     // 0: no limit
	RateLimit   float64 // a second; 0: no limit
}

func (c *TopicConf) encode() string {
	paused := 0
	if c.Paused {
		paused = 1
	}
	return fmt.Sprintf("%d %d %d %d %s", c.TTR.Milliseconds(), c.MaxAttempts, paused, c.MaxInFlight,
		strconv.FormatFloat(c.RateLimit, 'g', -1, 64))
}

// SetTopics sets the limits of topics on every shard, where they differ. A shard that is down gets them when Wakeups
// of a process connects to it again. Each active shard gets its share of MaxInFlight, at least one, and of RateLimit,
// and enforces it exactly.
func (q *Queue) SetTopics(ctx context.Context, topics []TopicConf) error {
	q.mu.Lock()
	q.topics = topics
	q.mu.Unlock()
	return q.syncTopics(ctx, q.Shards()...)
}

func (q *Queue) syncTopics(ctx context.Context, shards ...*Shard) error {
	q.mu.Lock()
	topics := q.topics
	q.mu.Unlock()
	active := 0
	for _, s := range *q.shards.Load() {
		if s.State() == "active" {
			active++
		}
	}
	var errs []error
	for _, s := range shards {
		errs = append(errs, s.configure(ctx, divide(topics, active)))
	}
	return errors.Join(errs...)
}

// divide gives each of n shards its share of the limits. Jobs are spread evenly, so equal shares lose little.
func divide(topics []TopicConf, n int) []TopicConf {
	if n <= 1 {
		return topics
	}
	shares := make([]TopicConf, len(topics))
	for i, c := range topics {
		if c.MaxInFlight > 0 {
			c.MaxInFlight = max(1, c.MaxInFlight/n)
		}
		c.RateLimit /= float64(n)
		shares[i] = c
	}
	return shares
}

const topicStep = 200 // topics of one script call

func (s *Shard) configure(ctx context.Context, topics []TopicConf) error {
	s.confMu.Lock()
	defer s.confMu.Unlock()
	byBucket := map[int][]any{}
	sent := map[string]string{}
	flush := func(b int) error {
		_, err := s.again(ctx, b, "configure", byBucket[b]...)
		delete(byBucket, b)
		return err
	}
	for i := range topics {
		name, conf := topics[i].Name, topics[i].encode()
		sent[name] = conf
		if s.confSent[name] == conf {
			continue
		}
		b := s.bucketOf(name)
		byBucket[b] = append(byBucket[b], name, conf)
		if len(byBucket[b]) == 2*topicStep {
			if err := flush(b); err != nil {
				return fmt.Errorf("set the limits of topics: %w", err)
			}
		}
	}
	for b := range byBucket {
		if err := flush(b); err != nil {
			return fmt.Errorf("set the limits of topics: %w", err)
		}
	}
	s.confSent = sent
	return nil
}

// forgetTopics makes the next configure send all limits: the server may be another one.
func (s *Shard) forgetTopics() {
	s.confMu.Lock()
	s.confSent = map[string]string{}
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
		reply, err := s.list(ctx, bucket, 5*len(some), "stats", anys(some)...)
		if err != nil {
			return err
		}
		counts := ints(reply)
		for i, topic := range some {
			st := sum[topic]
			st.addCounts(counts[5*i:])
			sum[topic] = st
		}
		return nil
	})
	return sum, err
}

// addCounts adds what one shard counts: delayed, ready, running, dead, ms since the oldest ready one fell due.
func (st *Stats) addCounts(n []int64) {
	st.Delayed += n[0]
	st.Ready += n[1]
	st.Running += n[2]
	st.Dead += n[3]
	st.OldestReady = max(st.OldestReady, time.Duration(n[4])*time.Millisecond)
}

// DropTopic deletes all jobs of a topic, in steps, and returns how many.
func (q *Queue) DropTopic(ctx context.Context, topic string) (int, error) {
	total := 0
	for _, s := range *q.shards.Load() {
		for {
			reply, err := s.list(ctx, s.bucketOf(topic), 3, "drop", topic, deadStep)
			if err != nil {
				return total, fmt.Errorf("delete the jobs of %s: %w", topic, err)
			}
			n, _ := reply[0].(int64)
			total += int(n)
			if reply[1] == int64(0) || n == 0 {
				revision, _ := reply[2].(int64)
				if err := q.record(ctx, Cleared, Job{Topic: topic, Shard: s.name, Revision: revision}); err != nil {
					return total, err
				}
				break
			}
		}
	}
	return total, nil
}

// TopicLimits are the window and breaker of a topic, of the shard where they are worst.
type TopicLimits struct {
	Window      int64     // calls in flight that its endpoint is trusted with
	Failures    int64     // in a row
	BreakerOpen time.Time // until when only one job at a time is called; zero: it is closed
}

// TopicLimits reads the windows and breakers of topics. With a *PartialError the answer is that of the shards that
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
