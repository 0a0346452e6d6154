package store

import (
	"cmp"
	"context"
	"fmt"
	"iter"
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
	Key       KeyConf
	last, all int  // with RememberLast: how many jobs a shard remembers of the topic, and a bucket of all such topics
	Gone      bool // it no longer has settings
}

// KeyConf limits the jobs of each key of a topic, see lua/shared/key.lua. Shards do not divide these limits: all jobs
// of a key are in one.
type KeyConf struct {
	MaxInFlight  int     // 0: keys mean nothing
	RateLimit    float64 // jobs per second, counted from the end of the job before; 0: no limit
	SkipRetrying bool    // jobs that wait for a retry do not hold up the others of their key
}

// appendTo appends the settings as configure.lua reads them.
func (c *TopicConf) appendTo(args []any) []any {
	if c.Gone {
		return append(args, c.Name, "", "", "", "", "", "", "", "", "", "", "", "", "")
	}
	flag := func(on bool) string {
		if on {
			return "1"
		}
		return ""
	}
	remember, keep, all := "", "", ""
	switch {
	case c.Remember > 0:
		remember = strconv.FormatInt(max(1, c.Remember.Milliseconds()), 10)
	case c.Remember == RememberLast:
		remember, keep, all = "last", strconv.Itoa(max(1, min(c.last, c.all))), strconv.Itoa(c.all)
	}
	return append(args, c.Name, strconv.FormatInt(c.TTR.Milliseconds(), 10), strconv.Itoa(c.MaxAttempts),
		positive(float64(c.MaxInFlight)), positive(c.RateLimit), flag(c.Paused), flag(c.Pull), flag(c.Drop),
		remember, keep, all, positive(float64(c.Key.MaxInFlight)), positive(c.Key.RateLimit), flag(c.Key.SkipRetrying))
}

func positive(x float64) string {
	if x <= 0 {
		return ""
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

const confFields = 14

// share returns a topic's limits for each of n shards. Jobs are spread evenly, so equal shares lose little.
func (c TopicConf) share(n int) TopicConf {
	if n > 1 && c.MaxInFlight > 0 {
		c.MaxInFlight = max(1, c.MaxInFlight/n)
	}
	c.RateLimit /= float64(max(1, n))
	c.last, c.all = LastFinished/max(1, n), MaxLast/max(1, n)
	return c
}

// TopicStep is the most topics in one call of a script.
const TopicStep = 200

// Configure sets the limits of topics in the buckets that have an older version of them: the changed ones, or all.
func (s *Shard) Configure(
	ctx context.Context, version uint64, all iter.Seq[TopicConf], changed []TopicConf, shards int,
) error {
	s.confMu.Lock()
	defer s.confMu.Unlock()
	var errs []error
	for i, has := range s.confVersions {
		if has >= version {
			continue
		}
		list := all
		if changed != nil && (all == nil || has == version-1) {
			list = slices.Values(changed)
		}
		s.confVersions[i] = 0 // unknown if a call fails
		if err := s.buckets[i].SetTopics(ctx, list, shards); err != nil {
			errs = append(errs, err)
			continue
		}
		s.confVersions[i] = version
	}
	return cmp.Or(errs...)
}

// SetTopics sets the limits of those of the topics that the bucket has.
func (b *Bucket) SetTopics(ctx context.Context, all iter.Seq[TopicConf], shards int) error {
	var args []any
	send := func() error {
		if len(args) == 0 {
			return nil
		}
		_, err := b.Call(ctx, configureScript, args...)
		args = args[:0]
		return err
	}
	for c := range all {
		if !IsNamespace(c.Name) && b.shard.BucketOf(c.Name) != b {
			continue
		}
		c = c.share(shards)
		c.all = max(1, c.all/len(b.shard.buckets))
		if args = c.appendTo(args); len(args) < confFields*TopicStep {
			continue
		}
		if err := send(); err != nil {
			return err
		}
	}
	return send()
}

// topicsEvery is how often limits are set again that a shard did not take: it was down, read-only or without replicas.
const topicsEvery = time.Second

// KeepTopics sets the limits of topics that a failed call may not have stored.
func (s *Shard) KeepTopics() {
	s.retry(topicsEvery, func() (done bool) {
		if err := s.peers.Resync(s.ctx, s); err != nil {
			s.log.Debug("limits of topics not stored", "error", err)
		}
		return false
	})
}

// forgetTopics makes the next configure send all limits: the server may be another one.
func (s *Shard) forgetTopics() {
	s.confMu.Lock()
	clear(s.confVersions)
	s.confMu.Unlock()
}

// Stats reads the counts of topics, and their totals if asked. The counts of a namespace are those of its
// topics.
func (b *Bucket) Stats(
	ctx context.Context, topics []string, totals bool,
	take func(topic string, st Stats, totals any, now time.Time) error,
) error {
	with := ""
	if totals {
		with = "1"
	}
	reply, err := b.CallList(ctx, 1+2*len(topics), statsScript, append([]any{with}, Anys(topics)...)...)
	if err != nil {
		return err
	}
	for i, topic := range topics {
		st := Stats{}
		if err := st.addCounts(reply[1+2*i]); err != nil {
			return fmt.Errorf("count the jobs of %s on shard %s: %w", topic, b.shard.name, err)
		}
		if IsNamespace(topic) {
			all := map[string]Stats{}
			if err := b.CountAll(ctx, strings.TrimSuffix(topic, "*"), "", all); err != nil {
				return err
			}
			st = all[topic]
		}
		if err := take(topic, st, reply[2+2*i], micros(reply[0])); err != nil {
			return fmt.Errorf("read the totals of %s on shard %s: %w", topic, b.shard.name, err)
		}
	}
	return nil
}

// countsStep is roughly the number of topics that one call of the script counts.
const countsStep = 250

// CountAll adds the counts of topics whose names begin with a prefix, and of their namespaces; with Dead
// only of topics with dead jobs.
func (b *Bucket) CountAll(ctx context.Context, prefix string, state State, sum map[string]Stats) error {
	return b.countAs(ctx, countsScript, prefix, state, sum)
}

func (b *Bucket) countAs(
	ctx context.Context, script *Script, prefix string, state State, sum map[string]Stats,
) error {
	for cursor := "0"; ; {
		reply, err := b.CallList(ctx, -1, script, cursor, countsStep, prefix, string(state))
		if err != nil {
			return err
		}
		for v := range slices.Chunk(reply[1:], 3) {
			if len(v) < 3 {
				return ErrReply
			}
			for _, name := range v[:2] {
				topic := Text(name)
				if topic == "" {
					continue
				}
				st := sum[topic]
				if err := st.addCounts(v[2]); err != nil {
					return err
				}
				sum[topic] = st
			}
		}
		if cursor = Text(reply[0]); cursor == "0" {
			return nil
		}
	}
}

// addCounts adds the counts of one shard, see statsOf in lua/shared.
func (st *Stats) addCounts(counts any) error {
	n := Ints(Values(counts))
	if len(n) != 6 {
		return ErrReply
	}
	st.Add(Stats{
		Delayed: n[0], Ready: n[1], Running: n[2], Dead: n[3], OldestReady: time.Duration(n[4]) * time.Millisecond,
		High: n[5],
	})
	return nil
}

// IsNamespace reports whether a name stands for the topics of a namespace.
func IsNamespace(topic string) bool { return strings.HasSuffix(topic, ".*") }

// Dropper deletes the jobs of topics.
type Dropper interface {
	DropTopic(ctx context.Context, topic string) (int, error)
}

// EndTopic deletes a topic with its jobs. end makes the topic refuse pushes. Jobs are deleted before, so that the rest
// remain accessible after a failure, and again after, because of pushes in between.
func EndTopic(ctx context.Context, jobs Dropper, topic string, end func() error) error {
	if _, err := jobs.DropTopic(ctx, topic); err != nil {
		return err
	}
	if err := end(); err != nil {
		return err
	}
	if _, err := jobs.DropTopic(ctx, topic); err != nil {
		return fmt.Errorf("topic %s is deleted, but jobs that were pushed meanwhile may remain: %w", topic, err)
	}
	return nil
}
