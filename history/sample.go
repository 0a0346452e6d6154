package history

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/wakecall/wakecall/queue"
)

// Totals, Living and what is read of a topic at one instant.
type (
	Totals  = queue.Totals
	Living  = queue.Stats
	Reading struct {
		Totals
		Living
	}
)

// Lateness says how late jobs were called back, and how many.
type Lateness struct {
	Count    int64
	P50, P99 time.Duration
}

// ShardReading is what the checker saw of a shard lately.
type ShardReading struct {
	Name              string
	Up                bool
	P50, P99          time.Duration // of a ping, over the last minute
	Memory, MaxMemory int64
	Jobs              int64
}

// record is what a sample holds. Names are short because there are many of them.
type record struct {
	Pushed    int64 `json:"p,omitempty"`
	Delivered int64 `json:"d,omitempty"`
	Failed    int64 `json:"f,omitempty"`
	Retried   int64 `json:"r,omitempty"`
	Snoozed   int64 `json:"s,omitempty"`
	Deleted   int64 `json:"x,omitempty"`
	Died      int64 `json:"k,omitempty"`
	Expired   int64 `json:"e,omitempty"`
	Redriven  int64 `json:"v,omitempty"`
	Dropped   int64 `json:"o,omitempty"`
	Replaced  int64 `json:"y,omitempty"`

	Delayed int64 `json:"gd,omitempty"`
	Ready   int64 `json:"gr,omitempty"`
	Running int64 `json:"gu,omitempty"`
	Dead    int64 `json:"gx,omitempty"`
	Oldest  int64 `json:"go,omitempty"` // ms

	Called int64   `json:"lc,omitempty"` // callbacks whose lateness is known
	P50    float64 `json:"l5,omitempty"` // ms
	P99    float64 `json:"l9,omitempty"` // ms

	Shard *shardRecord `json:"sh,omitempty"`
}

type shardRecord struct {
	Up        float64 `json:"up"` // share of the slot's rounds
	P50       float64 `json:"p5"` // ms
	P99       float64 `json:"p9"` // ms; the worst of the slot's rounds
	Memory    int64   `json:"m"`
	MaxMemory int64   `json:"mm,omitempty"`
	Jobs      int64   `json:"j"`
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func newRecord(r Reading, l Lateness) record {
	return record{
		Pushed: r.Pushed, Delivered: r.Delivered, Failed: r.Failed, Retried: r.Retried, Snoozed: r.Snoozed, Deleted: r.Deleted,
		Died: r.Died, Expired: r.Expired, Redriven: r.Redriven, Dropped: r.Dropped, Replaced: r.Replaced,
		Delayed: r.Delayed, Ready: r.Ready, Running: r.Running, Dead: r.Dead, Oldest: r.OldestReady.Milliseconds(),
		Called: l.Count, P50: ms(l.P50), P99: ms(l.P99),
	}
}

func (r record) totals() Totals {
	return Totals{
		Pushed: r.Pushed, Delivered: r.Delivered, Failed: r.Failed, Retried: r.Retried, Snoozed: r.Snoozed, Deleted: r.Deleted,
		Died: r.Died, Expired: r.Expired, Redriven: r.Redriven, Dropped: r.Dropped, Replaced: r.Replaced,
	}
}

func (r record) sample(series string, t Tier, at time.Time) Sample {
	b, err := json.Marshal(r)
	if err != nil { // numbers only; a NaN would be a bug of ours, and must not end sampling
		b = []byte("{}")
	}
	return Sample{Series: series, Tier: t.Name, At: at.UTC(), Data: b}
}

func decode(s Sample) (record, error) {
	var r record
	if err := json.Unmarshal(s.Data, &r); err != nil {
		return r, fmt.Errorf("decode the sample of %s at %s: %w", s.Series, s.At.Format(time.RFC3339), err)
	}
	return r, nil
}

// addLiving sums living jobs; the oldest job is the older one.
func addLiving(a, b Living) Living {
	return Living{
		Delayed: a.Delayed + b.Delayed, Ready: a.Ready + b.Ready, Running: a.Running + b.Running, Dead: a.Dead + b.Dead,
		OldestReady: max(a.OldestReady, b.OldestReady),
	}
}

func addTotals(t, o Totals, sign int64) Totals {
	return Totals{
		Pushed: t.Pushed + sign*o.Pushed, Delivered: t.Delivered + sign*o.Delivered, Failed: t.Failed + sign*o.Failed,
		Retried: t.Retried + sign*o.Retried, Snoozed: t.Snoozed + sign*o.Snoozed, Deleted: t.Deleted + sign*o.Deleted,
		Died: t.Died + sign*o.Died, Expired: t.Expired + sign*o.Expired, Redriven: t.Redriven + sign*o.Redriven,
		Dropped: t.Dropped + sign*o.Dropped, Replaced: t.Replaced + sign*o.Replaced,
	}
}

// rise is how far totals rose from earlier ones. Totals that fell belong to a topic that was dropped and made again, or to a shard that was
// emptied: then all of them are new.
func rise(t, from Totals) Totals {
	if d := addTotals(t, from, -1); !fell(d) {
		return d
	}
	return t
}

func fell(t Totals) bool {
	return min(t.Pushed, t.Delivered, t.Failed, t.Retried, t.Snoozed, t.Deleted, t.Died, t.Expired, t.Redriven, t.Dropped, t.Replaced) < 0
}
