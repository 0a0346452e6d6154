package history

import (
	"slices"
	"strings"
	"time"
)

// topicBook is what the sampler knows of the topics.
type topicBook struct {
	topics map[string]*entry
	all    Reading // of all topics; its totals go on growing when a topic is dropped
	begun  bool    // the totals of all have their beginning
}

// entry is one topic. Its totals stay sensible while a shard is down: then only the rise of the others' is added.
type entry struct {
	now     Reading
	raw     Totals // as read last
	missing string // the shards that did not answer then
	known   bool   // all shards answered once, so that now is the truth or goes on from it
	written map[string]written
}

// written is what a tier knows of a topic.
type written struct {
	reading Reading
	at      time.Time // of its last sample; zero before the first
}

type change struct {
	topic       string
	before, now Reading
	resumes     bool // nothing was stored at the slot before
}

func newTopicBook() *topicBook { return &topicBook{topics: map[string]*entry{}} }

func missingKey(shards []string) string {
	list := slices.Sorted(slices.Values(shards))
	return strings.Join(list, " ")
}

// see takes what was read; missing names the shards that did not answer. The first time, base is what the totals of all are known to be.
func (b *topicBook) see(readings map[string]Reading, missing string, base Totals) {
	if !b.begun && missing != "" {
		b.all.Totals = base
	}
	for topic, r := range readings {
		b.seeOne(topic, r, missing)
	}
	b.sumLiving()
	b.begun = true
}

func (b *topicBook) seeOne(topic string, r Reading, missing string) {
	e := b.topics[topic]
	if e == nil {
		b.topics[topic] = b.first(r, missing)
		return
	}
	before := e.now.Totals
	totals := before // other shards than before: nothing can be compared
	switch missing {
	case "":
		totals = r.Totals // the truth
	case e.missing:
		totals = addTotals(before, rise(r.Totals, e.raw), 1)
	}
	if missing == "" && !e.known {
		e.learn(r.Totals)
		before = totals
	}
	e.raw, e.missing = r.Totals, missing
	e.now = Reading{Totals: totals, Living: r.Living}
	b.all.Totals = addTotals(b.all.Totals, rise(totals, before), 1)
}

// learn is for a topic that was read only in part so far: what is found now did not happen now.
func (e *entry) learn(truth Totals) {
	e.known = true
	for name, w := range e.written {
		w.reading.Totals = truth
		e.written[name] = w
	}
}

// first is a topic's first reading. What is counted in one that appears later happened just now, if it can be told at all.
func (b *topicBook) first(r Reading, missing string) *entry {
	e := &entry{now: r, raw: r.Totals, missing: missing, known: missing == "", written: map[string]written{}}
	if e.known || b.begun {
		b.all.Totals = addTotals(b.all.Totals, r.Totals, 1)
	}
	begin := r
	if b.begun {
		begin = Reading{}
	}
	for _, t := range tiers {
		e.written[t.Name] = written{reading: begin}
	}
	return e
}

func (b *topicBook) sumLiving() {
	b.all.Living = Living{}
	for _, e := range b.topics {
		b.all.Living = addLiving(b.all.Living, e.now.Living)
	}
}

// keepOnly forgets topics that are not registered any more. The totals of all keep what they counted.
func (b *topicBook) keepOnly(topics []string) {
	keep := make(map[string]bool, len(topics))
	for _, t := range topics {
		keep[t] = true
	}
	for t := range b.topics {
		if !keep[t] {
			delete(b.topics, t)
		}
	}
	b.sumLiving()
}

// changed are the topics to be stored at the end of a tier's slot.
// changed are the topics to be stored at the end of a tier's slot.
func (b *topicBook) changed(t Tier, at time.Time) []change {
	var list []change
	for topic, e := range b.topics {
		w := e.written[t.Name]
		same := w.reading.Totals == e.now.Totals && w.reading.sameCounts(e.now)
		if same && (e.now.Living == Living{} || at.Sub(w.at) < t.Again) {
			continue
		}
		resumes := !same && !w.at.Equal(at.Add(-t.Step))
		list = append(list, change{topic: topic, before: w.reading, now: e.now, resumes: resumes})
		e.written[t.Name] = written{reading: e.now, at: at}
	}
	slices.SortFunc(list, func(a, b change) int { return strings.Compare(a.topic, b.topic) })
	return list
}

func (r Reading) sameCounts(o Reading) bool {
	a, b := r.Living, o.Living
	a.OldestReady, b.OldestReady = 0, 0
	return a == b
}

// shardBook gathers what the rounds of each tier's open slot saw.
type shardBook map[string]map[string]*shardSlot // tier, shard

type shardSlot struct {
	rounds, up int
	last       shardRecord
	p99        float64
}

func (b shardBook) see(shards []ShardReading) {
	for _, t := range tiers {
		slot := b[t.Name]
		if slot == nil {
			slot = map[string]*shardSlot{}
			b[t.Name] = slot
		}
		for _, s := range shards {
			if slot[s.Name] == nil {
				slot[s.Name] = &shardSlot{}
			}
			slot[s.Name].see(s)
		}
	}
}

func (s *shardSlot) see(r ShardReading) {
	s.rounds++
	if r.Up {
		s.up++
	}
	s.p99 = max(s.p99, ms(r.P99))
	s.last = shardRecord{P50: ms(r.P50), Memory: r.Memory, MaxMemory: r.MaxMemory, Jobs: r.Jobs}
}

// slot ends a tier's slot.
func (b shardBook) slot(t Tier) map[string]shardRecord {
	out := map[string]shardRecord{}
	for name, s := range b[t.Name] {
		r := s.last
		r.Up, r.P99 = float64(s.up)/float64(s.rounds), s.p99
		out[name] = r
	}
	delete(b, t.Name)
	return out
}
