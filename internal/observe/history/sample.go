package history

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/store"
)

// Totals holds the counters of a topic, and Living its live jobs.
type (
	Totals = observe.Totals
	Living = store.Stats
)

// Lateness holds how late jobs were called, and how many.
type Lateness struct {
	Count    int64
	P50, P99 time.Duration
}

// ShardReading holds the checker's latest view of a shard.
type ShardReading struct {
	Name              string
	Up                bool
	P50, P99          time.Duration // of a ping, over the last minute
	Memory, MaxMemory int64
	Jobs              int64
}

// record is the data of a sample. Names are short because there are many samples.
type record struct {
	Totals

	Delayed int64 `json:"gd,omitempty"`
	Ready   int64 `json:"gr,omitempty"`
	Running int64 `json:"gu,omitempty"`
	Dead    int64 `json:"gx,omitempty"`
	Oldest  int64 `json:"go,omitempty"` // ms

	Called int64   `json:"lc,omitempty"` // calls whose lateness is known
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

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func newRecord(r Reading, l Lateness) record {
	return record{
		Totals:  r.Totals,
		Delayed: r.Delayed, Ready: r.Ready, Running: r.Running, Dead: r.Dead, Oldest: r.OldestReady.Milliseconds(),
		Called: l.Count, P50: ms(l.P50), P99: ms(l.P99),
	}
}

func (r record) sample(series string, t Tier, at time.Time) Sample {
	b, err := json.Marshal(r)
	if err != nil { // fails only for NaN, which would be a bug but must not end sampling
		b = []byte("{}")
	}
	return Sample{Series: series, Tier: t.Name, At: at.UTC(), Data: b}
}

func decode(s Sample) (record, error) {
	var r record
	if err := json.Unmarshal(s.Data, &r); err != nil {
		return r, fmt.Errorf("decode sample of %s at %s: %w", s.Series, s.At.Format(time.RFC3339), err)
	}
	return r, nil
}

// rise returns how far totals rose from earlier ones. If any fell, the topic was dropped and recreated, or a shard was
// emptied, so all of the totals are new.
func rise(t, earlier Totals) Totals {
	d := t
	to, from := d.Counters(), earlier.Counters()
	for i := range to {
		if *to[i] -= *from[i]; *to[i] < 0 {
			return t
		}
	}
	return d
}
