package history

import (
	"fmt"
	"slices"
	"strings"
)

// Mismatch is a topic whose ledger does not add up.
type Mismatch struct {
	Topic   string
	Reading Reading
	Rounds  int // in a row
}

// Missing is how many jobs were accepted and are nowhere; negative when there are more than were accepted.
func (r Reading) Missing() int64 {
	living := r.Delayed + r.Ready + r.Running + r.Dead
	return r.Pushed - r.Delivered - r.Deleted - r.Dropped - r.Replaced - living
}

func (m Mismatch) String() string {
	r := m.Reading
	return fmt.Sprintf("%s: %d pushed, but %d delivered + %d deleted + %d dropped + %d replaced + %d delayed, %d ready, %d running, %d dead: %+d",
		m.Topic, r.Pushed, r.Delivered, r.Deleted, r.Dropped, r.Replaced, r.Delayed, r.Ready, r.Running, r.Dead, -r.Missing())
}

// mismatchRounds is how often in a row a ledger must be wrong. One round may see a cluster's buckets at different instants.
const mismatchRounds = 3

// ledger remembers which topics did not add up.
type ledger struct{ wrong map[string]Mismatch }

// check judges a reading for which all shards answered.
func (l *ledger) check(topic string, r Reading) {
	if r.Missing() == 0 {
		delete(l.wrong, topic)
		return
	}
	if l.wrong == nil {
		l.wrong = map[string]Mismatch{}
	}
	l.wrong[topic] = Mismatch{Topic: topic, Reading: r, Rounds: l.wrong[topic].Rounds + 1}
}

func (l *ledger) suspects() []string {
	var list []string
	for topic := range l.wrong {
		list = append(list, topic)
	}
	return list
}

func (l *ledger) mismatches() []Mismatch {
	var list []Mismatch
	for _, m := range l.wrong {
		if m.Rounds >= mismatchRounds {
			list = append(list, m)
		}
	}
	slices.SortFunc(list, func(a, b Mismatch) int { return strings.Compare(a.Topic, b.Topic) })
	return list
}
