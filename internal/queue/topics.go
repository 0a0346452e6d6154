package queue

import (
	"cmp"
	"context"
	"errors"
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
	last, all int  // with RememberLast: how many jobs a shard remembers of the topic, and a bucket of all such topics
	Gone      bool // it no longer has settings
}

// appendTo appends the settings as configure.lua reads them.
func (c *TopicConf) appendTo(args []any) []any {
	if c.Gone {
		return append(args, c.Name, "", "", "", "", "", "", "", "", "", "")
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
		remember, keep, all)
}

func positive(x float64) string {
	if x <= 0 {
		return ""
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

const confFields = 11

// SetTopics sets the limits of all topics on every shard. all yields the current topics; the queue calls it again
// whenever a shard may have other limits, so a shard that is down or refuses writes gets them later. Each active shard
// gets its share of MaxInFlight, at least one, and of RateLimit, and enforces it exactly.
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
	var errs []error
	for b, has := range s.confVersions {
		if has >= version {
			continue
		}
		list := all
		if changed != nil && (all == nil || has == version-1) {
			list = slices.Values(changed)
		}
		s.confVersions[b] = 0 // unknown if a call fails
		if err := s.sendTopics(ctx, b, list, shards); err != nil {
			errs = append(errs, err)
			continue
		}
		s.confVersions[b] = version
	}
	return cmp.Or(errs...)
}

// LimitBucket sets the limits of all topics of a bucket that is about to be opened and may have lost them.
func (q *Queue) LimitBucket(ctx context.Context, s *Shard, bucket int, all iter.Seq[TopicConf]) error {
	return s.sendTopics(ctx, bucket, all, len(*q.takers.Load()))
}

func (s *Shard) sendTopics(ctx context.Context, bucket int, all iter.Seq[TopicConf], shards int) error {
	var args []any
	send := func() error {
		if len(args) == 0 {
			return nil
		}
		_, err := s.Call(ctx, bucket, configureScript, args...)
		args = args[:0]
		return err
	}
	for c := range all {
		if !isNamespace(c.Name) && s.bucketOf(c.Name) != bucket {
			continue
		}
		c = c.share(shards)
		c.all = max(1, c.all/s.Buckets())
		if args = c.appendTo(args); len(args) < confFields*topicStep {
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

// keepTopics sets the limits of topics that a failed call may not have stored.
func (s *Shard) keepTopics() {
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

// Stats counts the jobs of topics over all shards. With a *PartialError the numbers are those of the shards that
// answered.
func (q *Queue) Stats(ctx context.Context, topics []string) (map[string]Stats, error) {
	sum := make(map[string]Stats, len(topics))
	for _, t := range topics {
		sum[t] = Stats{}
	}
	err := q.eachTopic(topics, topicStep, func(s *Shard, bucket int, some []string) error {
		return s.stats(ctx, bucket, some, false, func(topic string, st Stats, _ any, _ time.Time) error {
			st.Add(sum[topic])
			sum[topic] = st
			return nil
		})
	})
	return sum, err
}

// stats reads the counts of topics of a bucket, and their totals if asked. The counts of a namespace are those of its
// topics.
func (s *Shard) stats(
	ctx context.Context, bucket int, topics []string, totals bool,
	take func(topic string, st Stats, totals any, now time.Time) error,
) error {
	with := ""
	if totals {
		with = "1"
	}
	reply, err := s.CallList(ctx, bucket, 1+2*len(topics), statsScript, append([]any{with}, anys(topics)...)...)
	if err != nil {
		return err
	}
	for i, topic := range topics {
		st := Stats{}
		if err := st.addCounts(reply[1+2*i]); err != nil {
			return fmt.Errorf("count the jobs of %s on shard %s: %w", topic, s.name, err)
		}
		if isNamespace(topic) {
			all := map[string]Stats{}
			if err := s.countAll(ctx, bucket, strings.TrimSuffix(topic, "*"), "", all); err != nil {
				return err
			}
			st = all[topic]
		}
		if err := take(topic, st, reply[2+2*i], micros(reply[0])); err != nil {
			return fmt.Errorf("read the totals of %s on shard %s: %w", topic, s.name, err)
		}
	}
	return nil
}

// countsStep is roughly the number of topics that one call of the script counts.
const countsStep = 250

// Counts counts the jobs of all topics that have jobs, over all shards, and those of namespaces with settings. With a
// *PartialError the numbers are from the shards that answered.
func (q *Queue) Counts(ctx context.Context) (map[string]Stats, error) {
	sum := map[string]Stats{}
	err := q.eachBucket(func(s *Shard, bucket int) error { return s.countAll(ctx, bucket, "", "", sum) })
	return sum, err
}

// countAll adds the counts of a bucket's topics whose names begin with a prefix, and of their namespaces; with Dead
// only of topics with dead jobs.
func (s *Shard) countAll(ctx context.Context, bucket int, prefix string, state State, sum map[string]Stats) error {
	return s.countAs(ctx, countsScript, bucket, prefix, state, sum)
}

func (s *Shard) countAs(
	ctx context.Context, script *Script, bucket int, prefix string, state State, sum map[string]Stats,
) error {
	for cursor := "0"; ; {
		reply, err := s.CallList(ctx, bucket, -1, script, cursor, countsStep, prefix, string(state))
		if err != nil {
			return err
		}
		for v := range slices.Chunk(reply[1:], 3) {
			if len(v) < 3 {
				return errReply
			}
			for _, name := range v[:2] {
				topic := text(name)
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
		if cursor = text(reply[0]); cursor == "0" {
			return nil
		}
	}
}

// addCounts adds the counts of one shard, see statsOf in lua/shared.
func (st *Stats) addCounts(counts any) error {
	n := ints(values(counts))
	if len(n) != 6 {
		return errReply
	}
	st.Add(Stats{
		Delayed: n[0], Ready: n[1], Running: n[2], Dead: n[3], OldestReady: time.Duration(n[4]) * time.Millisecond,
		High: n[5],
	})
	return nil
}

// Members lists the topics of a namespace that have jobs, by name. With a *PartialError they are from the shards that
// answered.
func (q *Queue) Members(ctx context.Context, namespace string) ([]string, error) {
	return q.members(ctx, namespace, "")
}

func (q *Queue) members(ctx context.Context, namespace string, state State) ([]string, error) {
	all := map[string]Stats{}
	err := q.eachBucket(func(s *Shard, bucket int) error {
		return s.countAll(ctx, bucket, strings.TrimSuffix(namespace, "*"), state, all)
	})
	var list []string
	for topic, st := range all {
		if !isNamespace(topic) && (state == "" || state == Finished || st.Of(state) > 0) {
			list = append(list, topic)
		}
	}
	slices.Sort(list)
	return list, err
}

// isNamespace reports whether a name stands for the topics of a namespace.
func isNamespace(topic string) bool { return strings.HasSuffix(topic, ".*") }

// membersOf returns the topics that a name stands for: those of a namespace that have jobs in a state ("" for any), or
// the topic itself.
func (q *Queue) membersOf(ctx context.Context, topic string, state State) ([]string, error) {
	if !isNamespace(topic) {
		return []string{topic}, nil
	}
	return q.members(ctx, topic, state)
}

// DropTopic deletes all jobs of a topic, or of all topics of a namespace, in steps, and returns their number. After it
// returns without an error, none of their callbacks starts; those that have started go on.
func (q *Queue) DropTopic(ctx context.Context, topic string) (int, error) {
	members, err := q.membersOf(ctx, topic, "")
	if err != nil {
		return 0, err
	}
	if isNamespace(topic) { // the journal of an absent host may have jobs of topics that have none here
		if err := q.eachBucket(func(s *Shard, b int) error { return s.awaits(ctx, b) }); err != nil {
			return 0, fmt.Errorf("delete the jobs of %s: %w", topic, err)
		}
	}
	total, longest := 0, time.Duration(0)
	for _, member := range members {
		n, window, err := q.dropTopic(ctx, member)
		total, longest = total+n, max(longest, window)
		if err != nil {
			return total, err
		}
	}
	return total, outwait(ctx, longest)
}

// dropTopic deletes the jobs of one topic. window is for how long callbacks of those that were running, or may have
// been, may start.
func (q *Queue) dropTopic(ctx context.Context, topic string) (total int, window time.Duration, err error) {
	for _, s := range *q.shards.Load() {
		running := false
		err := s.drop(ctx, topic, func(d dropReply) error {
			total, running = total+d.deleted, running || d.running
			if d.isFirst {
				return q.record(ctx, Cleared, Job{Topic: topic, Shard: s.name, Revision: d.revision})
			}
			return q.record(ctx, Deleted, d.newer...)
		})
		if err != nil {
			return total, window, fmt.Errorf("delete the jobs of %s: %w", topic, err)
		}
		if running {
			window = max(window, s.startWindow(ctx, s.bucketOf(topic)))
		}
	}
	return total, window, nil
}

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

const dropStep = 200 // jobs in one call of the script

// dropReply says what one step of deleting a topic's jobs did.
type dropReply struct {
	isFirst  bool
	deleted  int
	running  bool  // a deleted job was running, or may have been
	revision int64 // of the deletion
	newer    []Job // deleted jobs that are newer than the first step
}

// drop deletes the jobs of a topic in one shard, and calls did for each step. When the reply of a later step was lost,
// it begins again: that step may have deleted jobs that are newer than the first one, and only a new first step covers
// them.
func (s *Shard) drop(ctx context.Context, topic string, did func(dropReply) error) error {
	first := int64(0)
	for cursor := "0"; ; {
		o, err := s.Call(ctx, s.bucketOf(topic), dropScript, topic, cursor, dropStep, first, "")
		if err != nil {
			return err
		}
		reply := values(o.Value)
		if len(reply) < 4 || len(reply)%2 != 0 {
			return errReply
		}
		d := dropReply{isFirst: first == 0, deleted: int(integer(reply[1])), revision: integer(reply[3])}
		d.running = o.Doubtful || integer(reply[2]) == 1
		for job := range slices.Chunk(reply[4:], 2) {
			d.newer = append(d.newer, Job{Topic: topic, ID: text(job[0]), Shard: s.name,
				CreatedAt: millisOf(text(job[1])), Revision: d.revision})
		}
		if err := did(d); err != nil {
			return err
		}
		cursor = text(reply[0])
		switch {
		case o.Doubtful && first > 0:
			first, cursor = 0, "0"
		case cursor == "0":
			return nil
		case first == 0:
			first = d.revision
		}
	}
}

// dropUpTo deletes the jobs of a topic up to a revision, as a line of a journal says that was replayed.
func (s *Shard) dropUpTo(ctx context.Context, topic string, revision int64) error {
	for cursor := "0"; ; {
		reply, err := s.CallList(ctx, s.bucketOf(topic), 4, clearScript, topic, cursor, dropStep, "", revision)
		if err != nil {
			return err
		}
		if cursor = text(reply[0]); cursor == "0" {
			return nil
		}
	}
}
