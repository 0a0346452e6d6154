package checker

import (
	"slices"
	"strings"
	"time"

	"github.com/wakecall/wakecall/queue"
)

// Seen is what was last seen of a shard.
type Seen struct {
	Name   string
	Up     bool
	Ping   time.Duration // the last one
	P50    time.Duration // of the last minute's pings
	P99    time.Duration
	Health queue.ShardHealth // of the last look that was answered
}

// Seen lists the shards that are watched, by name.
func (c *Checker) Seen() []Seen {
	var list []Seen
	for name, v := range c.seen() {
		list = append(list, Seen{name, v.up, v.ping, v.p50, v.p99, v.health})
	}
	slices.SortFunc(list, func(a, b Seen) int { return strings.Compare(a.Name, b.Name) })
	return list
}
