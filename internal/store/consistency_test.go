package store_test

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/wakecall/wakecall/internal/store"
)

// consistency compares all keys of bucket 0 with each other, while nothing changes them.
type consistency struct {
	*rapid.T
	s      *store.Shard
	jobs   map[string]store.Record // by "TOPIC/ID"
	places map[string]int          // of jobs: how many sets and lists have them where their state says
	events map[string]float64
	next   map[string]float64
	now    time.Time
}

func checkConsistency(t *rapid.T, s *store.Shard) {
	c := consistency{T: t, s: s, jobs: map[string]store.Record{}, places: map[string]int{}, events: map[string]float64{}}
	ctx, p := t.Context(), store.Prefix(0)
	c.next = c.members("next")
	c.now = s.Redis().Time(ctx).Val()
	topics := map[string]bool{}
	keys := s.Redis().Keys(ctx, p+"*").Val()
	for _, key := range keys {
		if topic, ok := strings.CutPrefix(key, p+"j:"); ok {
			topics[topic] = true
			c.read(topic)
		}
	}
	registered := s.Redis().SMembers(ctx, p+"topics").Val()
	for _, topic := range registered {
		if !topics[topic] {
			t.Fatalf("topics has %s, which has no jobs", topic)
		}
	}
	if len(registered) != len(topics) {
		t.Fatalf("topics has %d topics; %d have jobs", len(registered), len(topics))
	}
	for topic := range topics {
		c.topic(topic)
	}
	c.keyed(keys)
	for _, key := range keys {
		c.key(strings.TrimPrefix(key, p), topics)
	}
	for name, job := range c.jobs {
		if c.places[name] != 1 {
			t.Fatalf("%s, which is %s, is in %d places", name, job.StateForTest(), c.places[name])
		}
	}
}

func (c *consistency) read(topic string) {
	for id, text := range c.s.Redis().HGetAll(c.Context(), store.Prefix(0)+"j:"+topic).Val() {
		job, err := store.ParseRecord(text)
		if err != nil {
			c.Fatalf("%s/%s: %v", topic, id, err)
		}
		c.jobs[topic+"/"+id] = job
	}
}

func (c *consistency) members(set string) map[string]float64 {
	all := map[string]float64{}
	for _, z := range c.s.Redis().ZRangeWithScores(c.Context(), store.Prefix(0)+set, 0, -1).Val() {
		all[z.Member.(string)] = z.Score
	}
	return all
}

// holds checks that a set has only ids of jobs in a state, and returns its lowest score.
func (c *consistency) holds(set, topic string, state string, priority *store.Priority) float64 {
	lowest := math.Inf(1)
	for id, score := range c.members(set + topic) {
		name := topic + "/" + id
		job, ok := c.jobs[name]
		if !ok || job.StateForTest() != state || priority != nil && job.PriorityForTest() != *priority {
			c.Fatalf("%s%s has %s, which is %+v", set, topic, id, job)
		}
		if set == "e:" && job.PairsForTest()["expires"] == "" {
			c.Fatalf("%s does not expire", name)
		}
		if set != "e:" {
			c.places[name]++
		}
		lowest = min(lowest, score)
	}
	return lowest
}

func (c *consistency) topic(topic string) {
	ctx, p := c.Context(), store.Prefix(0)
	c.holds("dead:", topic, "dead", nil)
	c.holds("fin:", topic, "done", nil)
	event := min(c.holds("l:", topic, "running", nil), c.holds("e:", topic, "waiting", nil))
	for minute, at := range c.members("m:" + topic) {
		event = min(event, at*60000-60000)
		c.minute(topic, minute)
	}
	c.ordered(topic)
	c.holds("h:", topic, "waiting", nil)
	settings := c.s.Redis().HMGet(ctx, p+"c:"+topic, "until", "paused", "pull").Val()
	held := settings[0] != nil || settings[1] != nil || settings[2] != nil
	for _, priority := range []store.Priority{store.High, store.Normal, store.Low} {
		first := c.holds("w:"+priority.String()+":", topic, "waiting", &priority)
		turn := c.s.Redis().ZScore(ctx, p+"q:"+priority.String(), topic).Err() != redis.Nil
		if !held && !turn {
			event = min(event, math.Ceil(first/1000))
		}
	}
	next, ok := c.next[topic]
	if !math.IsInf(event, 1) && (!ok || next > max(event, float64(c.now.UnixMilli()+1))) {
		c.Fatalf("the next event of %s is at %.0f; next has %.0f (%v)", topic, event, next, ok)
	}
}

// ordered checks that the set o of a topic has the jobs with an order that are in w, the due ones by that order.
func (c *consistency) ordered(topic string) {
	members, n := c.members("o:"+topic), 0
	waiting := c.members("w:high:" + topic)
	maps.Copy(waiting, c.members("w:normal:"+topic))
	maps.Copy(waiting, c.members("w:low:"+topic))
	for id, at := range waiting {
		order := c.jobs[topic+"/"+id].PairsForTest()["order"]
		if order == "" {
			continue
		}
		n++
		score, ok := members[seat(id)]
		if due := at <= float64(c.now.UnixMicro()); !ok || score != at && (score != float64(store.Number(order)) || !due) {
			c.Fatalf("o:%s has %s by %.0f (%v); it is due at %.0f, and its order is %s", topic, id, score, ok, at, order)
		}
	}
	if n != len(members) {
		c.Fatalf("o:%s has %d jobs, %v; want %d", topic, len(members), members, n)
	}
	if s := c.s.Redis().HGet(c.Context(), store.Prefix(0)+"c:"+topic, "order"); n > 0 && s.Val() == "" {
		c.Fatalf("the settings of %s do not say that its jobs have an order", topic)
	}
}

// keyed checks that the sets k of keys have the waiting and running jobs of these keys, and h the held ones.
func (c *consistency) keyed(keys []string) {
	in := map[string]float64{}
	for _, key := range keys {
		name, ok := strings.CutPrefix(key, store.Prefix(0)+"k:")
		topic, of, _ := strings.Cut(name, "/")
		for id, score := range c.members("k:" + name) {
			job := c.jobs[topic+"/"+id]
			if !ok || job.PairsForTest()["key"] != of ||
				job.StateForTest() != "waiting" && job.StateForTest() != "running" {
				c.Fatalf("k:%s has %s, which is %+v", name, id, job)
			}
			in[topic+"/"+id] = score
		}
	}
	for name, job := range c.jobs {
		topic, id, _ := strings.Cut(name, "/")
		limits := c.s.Redis().HGet(c.Context(), store.Prefix(0)+"c:"+topic, "keyflight").Val() != ""
		key, lives := job.PairsForTest()["key"], job.StateForTest() == "waiting" || job.StateForTest() == "running"
		if limits && (in[name] != 0) != (key != "" && lives) {
			c.Fatalf("%s has the key %q and is %s; k has %v", name, key, job.StateForTest(), in[name])
		}
		held := c.s.Redis().ZScore(c.Context(), store.Prefix(0)+"h:"+topic, id).Err() == nil
		if held != (in[name] > 0) || held && job.StateForTest() == "running" {
			c.Fatalf("%s, which is %s, is held: %v; k has %v", name, job.StateForTest(), held, in[name])
		}
	}
}

// minute checks the list of a minute: each id without a waiting job of that minute is counted.
func (c *consistency) minute(topic, minute string) {
	ctx, p := c.Context(), store.Prefix(0)
	ids := c.s.Redis().LRange(ctx, p+"f:"+topic+":"+minute, 0, -1).Val()
	live := map[string]bool{}
	for _, id := range ids {
		job, name := c.jobs[topic+"/"+id], topic+"/"+id
		at := job.DueForTest().UnixMilli()
		if next := job.PairsForTest()["next"]; next != "" {
			at = store.Number(next)
		}
		if job.StateForTest() == "waiting" && at/60000 == store.Number(minute) && !live[id] {
			live[id] = true
			c.places[name]++
		}
	}
	stale, _ := c.s.Redis().HGet(ctx, p+"z:"+topic, minute).Int()
	if len(ids)-len(live) != stale {
		c.Fatalf("%d of %d ids in %s:%s are out of date; %d are counted", len(ids)-len(live), len(ids), topic, minute, stale)
	}
}

// key checks that a key belongs to a topic with jobs, or to a job.
func (c *consistency) key(key string, topics map[string]bool) {
	kind, of, _ := strings.Cut(key, ":")
	topic := of
	switch kind {
	case "w":
		_, topic, _ = strings.Cut(of, ":")
	case "f":
		topic, _, _ = strings.Cut(of, ":")
	case "b":
		if c.jobs[of].PairsForTest()["long"] == "" {
			c.Fatalf("%s is a body that no job has", key)
		}
		return
	case "a":
		if _, ok := c.jobs[of]; !ok {
			c.Fatalf("%s has the attempts of no job", key)
		}
		return
	case "k":
		topic, _, _ = strings.Cut(of, "/")
	case "l", "e", "o", "h", "dead", "fin", "m", "z":
	default:
		return
	}
	if at, ok := c.next[topic]; ok && slices.Contains([]string{"f", "m", "z"}, kind) && at <= float64(c.now.UnixMilli()) {
		return // wake.lua removes it next
	}
	if of != "" && !topics[topic] {
		c.Fatalf("%s is left of a topic without jobs", key)
	}
}
