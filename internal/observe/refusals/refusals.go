package refusals

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/registry/database"
	"github.com/wakecall/wakecall/internal/store"
)

// Count is a number of refused pushes.
type Count struct {
	Topic  string    `json:"topic,omitempty"` // empty: of several
	Reason string    `json:"reason"`          // of a store.UnavailableError
	N      int64     `json:"n"`
	First  time.Time `json:"first"`
	Last   time.Time `json:"last"`
}

// plus returns the sum of two counts, with the names of the second.
func (c Count) plus(o Count) Count {
	if o.N += c.N; c.N > 0 && c.First.Before(o.First) {
		o.First = c.First
	}
	if c.Last.After(o.Last) {
		o.Last = c.Last
	}
	return o
}

// Streak has the counts of refused pushes, each less than ten minutes after another.
type Streak []Count

// Latest returns the last streak of all processes, by topic and reason, if it ended less than 24 hours ago.
func Latest(ctx context.Context, db *database.DB) (Streak, error) {
	rows, err := database.List[row](ctx, db, func(tx *gorm.DB) *gorm.DB {
		return tx.Where("last_at > ?", time.Now().UTC().Add(-kept)).Order("last_at DESC")
	})
	all, began := map[key]Count{}, time.Time{}
	for _, r := range rows {
		if !began.IsZero() && began.Sub(r.LastAt) > gap {
			break
		}
		for _, c := range r.Counts {
			k := key{c.Topic, c.Reason}
			all[k] = all[k].plus(c)
			if began.IsZero() || c.First.Before(began) {
				began = c.First
			}
		}
	}
	return slices.Collect(maps.Values(all)), err
}

// sum adds up the counts that have the same name, the largest first.
func (s Streak) sum(name func(Count) string) (list []Count) {
	sums := map[string]Count{}
	for _, c := range s {
		sums[name(c)] = sums[name(c)].plus(c)
	}
	return slices.SortedFunc(maps.Values(sums), func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Topic, b.Topic))
	})
}

// Of returns the counts of a topic, without its name.
func (s Streak) Of(topic string) (list Streak) {
	for _, c := range s {
		if c.Topic == topic {
			c.Topic = ""
			list = append(list, c)
		}
	}
	return list
}

// Total returns the sum of all counts, with the most frequent reason.
func (s Streak) Total() (total Count) {
	reasons := s.sum(func(c Count) string { return c.Reason })
	for _, c := range slices.Backward(reasons) {
		total = total.plus(c)
	}
	return total
}

// topicsSaid is the most topics that a text names.
const topicsSaid = 3

// Says returns a text: how many were refused, why, and of which topics.
func (s Streak) Says() message.Message {
	total, topics := s.Total(), []string{}
	for _, c := range s.sum(func(c Count) string { return c.Topic }) {
		if c.Topic != "" && len(topics) < topicsSaid {
			topics = append(topics, fmt.Sprintf("%s (%d)", c.Topic, c.N))
		}
	}
	why := message.New(cmp.Or(reasons[total.Reason], "finding.refused_down"))
	code := "finding.refused"
	if len(topics) == 0 {
		code = "finding.refused_unnamed"
	}
	return message.New(code, total.N, why, strings.Join(topics, ", "))
}

// reasons are the codes of the reasons that have a text of their own.
var reasons = map[string]string{
	"full": "finding.refused_full", "readonly": "finding.refused_readonly", "disk": "finding.refused_disk",
	"journal": "finding.refused_journal", store.Absent: "finding.refused_absent",
}
