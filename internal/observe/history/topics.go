package history

import (
	"slices"
	"strings"
	"time"
)

// topicStates holds the sampler's state of the topics.
type topicStates struct {
	topics map[string]*topicState
	all    Reading // of all topics; its totals do not fall when a topic is dropped
	begun  bool    // all has its initial totals
}

// topicState is the state of one topic. While a shard is down its totals follow the rise of the other shards.
type topicState struct {
	now     Reading
	raw     Totals // as last read
	missing string // the shards that did not answer then
	known   bool   // all shards have answered once, so that now is complete
	stored  map[string]storedReading
}

// storedReading is the last sample of a topic in a tier.
type storedReading struct {
	Reading
	at time.Time // zero before the first sample
}

// change is a topic to be stored.
type change struct {
	topic       string
	before, now Reading
	resumes     bool // the previous slot has no sample
}

func newTopicStates() *topicStates { return &topicStates{topics: map[string]*topicState{}} }

// update merges readings; missing names the shards that did not answer. initial are the totals of all topics if the
// first readings are incomplete.
func (s *topicStates) update(readings map[string]Reading, missing string, initial Totals) {
	if !s.begun && missing != "" {
		s.all.Totals = initial
	}
	for topic, r := range readings {
		if state := s.topics[topic]; state != nil {
			s.all.Totals.Add(state.update(r, missing))
		} else {
			s.topics[topic] = s.first(r, missing)
		}
	}
	s.sumLiving()
	s.begun = true
}

// update merges a reading and returns how far the totals rose.
func (t *topicState) update(r Reading, missing string) Totals {
	before := t.now.Totals
	totals := before // other shards than before: not comparable
	switch missing {
	case "":
		totals = r.Totals
	case t.missing:
		totals.Add(rise(r.Totals, t.raw))
	}
	if missing == "" && !t.known { // events missed by partial readings did not happen now
		t.known = true
		for tier, stored := range t.stored {
			stored.Totals = totals
			t.stored[tier] = stored
		}
		before = totals
	}
	t.raw, t.missing = r.Totals, missing
	t.now = Reading{Totals: totals, Living: r.Living}
	return rise(totals, before)
}

// first returns the state of a topic that was read for the first time. The events of a topic that appears later are
// new.
func (s *topicStates) first(r Reading, missing string) *topicState {
	t := &topicState{now: r, raw: r.Totals, missing: missing, known: missing == "", stored: map[string]storedReading{}}
	if t.known || s.begun {
		s.all.Totals.Add(r.Totals)
	}
	begin := r
	if s.begun {
		begin = Reading{}
	}
	for _, tier := range tiers {
		t.stored[tier.Name] = storedReading{Reading: begin}
	}
	return t
}

func (s *topicStates) sumLiving() {
	s.all.Living = Living{}
	for _, t := range s.topics {
		s.all.Living.Add(t.now.Living)
	}
}

// keepOnly forgets topics that are no longer registered. The totals of all still include them.
func (s *topicStates) keepOnly(topics []string) {
	kept := make(map[string]*topicState, len(topics))
	for _, topic := range topics {
		if t := s.topics[topic]; t != nil {
			kept[topic] = t
		}
	}
	s.topics = kept
	s.sumLiving()
}

// changed lists the topics to be stored at the end of a tier's slot, and marks them as stored.
func (s *topicStates) changed(tier Tier, at time.Time) []change {
	var list []change
	for topic, t := range s.topics {
		stored := t.stored[tier.Name]
		same := stored.Totals == t.now.Totals && sameCounts(stored.Living, t.now.Living)
		if same && (t.now.Living == Living{} || at.Sub(stored.at).Abs() < tier.Again) {
			continue
		}
		resumes := !same && !stored.at.Equal(at.Add(-tier.Step))
		list = append(list, change{topic: topic, before: stored.Reading, now: t.now, resumes: resumes})
		t.stored[tier.Name] = storedReading{t.now, at}
	}
	slices.SortFunc(list, func(a, b change) int { return strings.Compare(a.topic, b.topic) })
	return list
}

func sameCounts(a, b Living) bool {
	a.OldestReady, b.OldestReady = 0, 0
	return a == b
}
