package history

import (
	"fmt"
	"strings"
	"time"
)

// Tier is a resolution of samples, and the span of time that charts show with it.
type Tier struct {
	Name string
	Step time.Duration
	Keep time.Duration
	// Again is how often a topic with live jobs is stored without an event, so that a chart shows them.
	Again  time.Duration
	Span   string
	Length time.Duration // of Span
}

const day = 24 * time.Hour

// tiers lists the tiers from fine to coarse. Every step is a multiple of the previous one.
var tiers = []Tier{
	{"10s", 10 * time.Second, time.Hour, time.Minute, "15m", 15 * time.Minute},
	{"1m", time.Minute, 6 * time.Hour, time.Hour, "3h", 3 * time.Hour},
	{"10m", 10 * time.Minute, 2 * day, 2 * time.Hour, "24h", day},
	{"1h", time.Hour, 15 * day, 12 * time.Hour, "7d", 7 * day},
}

// Round is how often the sampler reads.
const Round = 10 * time.Second

// AllTopics is the series of all topics together.
const AllTopics = "*"

const shardPrefix = "shard/"

// ShardSeries returns the name of a shard's series. No topic has a slash in its name.
func ShardSeries(shard string) string { return shardPrefix + shard }

func isShard(series string) bool { return strings.HasPrefix(series, shardPrefix) }

func isTopic(series string) bool { return series != AllTopics && !isShard(series) }

// Spans are the lengths of time that charts offer, from short to long.
func Spans() []string {
	names := make([]string, len(tiers))
	for i, t := range tiers {
		names[i] = t.Span
	}
	return names
}

// Length returns how long a span is.
func Length(span string) time.Duration {
	for _, t := range tiers {
		if t.Span == span {
			return t.Length
		}
	}
	return 0
}

// spanOf returns the length of a span and the tier that a series is read from.
func spanOf(name, series string) (length time.Duration, t Tier, err error) {
	for i, t := range tiers {
		if t.Span != name {
			continue
		}
		if isTopic(series) && t.Step == Round {
			return t.Length, tiers[i+1], nil // topics are not stored in every round
		}
		return t.Length, t, nil
	}
	return 0, Tier{}, fmt.Errorf("span %q is not one of %s", name, strings.Join(Spans(), ", "))
}

// mostSlots bounds the points of a chart between two times.
const mostSlots = 400

// tierOf returns the finest tier that has a series at a time, and not too many points up to another.
func tierOf(series string, from, to, now time.Time) Tier {
	for _, t := range tiers[:len(tiers)-1] {
		stored := !isTopic(series) || t.Step > Round // topics are not stored in every round
		if stored && now.Sub(from) <= t.Keep && to.Sub(from) <= mostSlots*t.Step {
			return t
		}
	}
	return tiers[len(tiers)-1]
}

// Oldest returns the time since which charts have data.
func Oldest(now time.Time) time.Time { return now.Add(-tiers[len(tiers)-1].Keep) }
