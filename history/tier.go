package history

import (
	"fmt"
	"time"
)

// Tier is a resolution of samples.
type Tier struct {
	Name string
	Step time.Duration
	Keep time.Duration // as the registry prunes
	// Again is how often a topic with living jobs is stored though nothing happens to it, so that a reader knows what lives.
	Again time.Duration
}

// Tiers from fine to coarse. Every step is a multiple of the one before.
var tiers = []Tier{
	{"10s", 10 * time.Second, time.Hour, time.Minute},
	{"1m", time.Minute, 6 * time.Hour, time.Hour},
	{"10m", 10 * time.Minute, 2 * 24 * time.Hour, 2 * time.Hour},
	{"1h", time.Hour, 15 * 24 * time.Hour, 12 * time.Hour},
}

// Round is how often the sampler looks.
const Round = 10 * time.Second

// AllTopics is the series of all topics together.
const AllTopics = "*"

// ShardSeries is the name of a shard's series. No topic has a slash in its name.
func ShardSeries(shard string) string { return "shard/" + shard }

// Spans are the lengths of time that charts offer, from short to long.
func Spans() []string { return []string{"15m", "3h", "24h", "7d"} }

type span struct {
	length time.Duration
	tier   int // index into tiers
}

var spans = map[string]span{
	"15m": {15 * time.Minute, 0},
	"3h":  {3 * time.Hour, 1},
	"24h": {24 * time.Hour, 2},
	"7d":  {7 * 24 * time.Hour, 3},
}

// spanOf finds the span and the tier that answers it for a series.
func spanOf(name, series string) (span, Tier, error) {
	s, ok := spans[name]
	if !ok {
		return span{}, Tier{}, fmt.Errorf("span %q is not one of 15m, 3h, 24h, 7d", name)
	}
	if isTopic(series) && s.tier == 0 {
		s.tier = 1 // topics are not stored every ten seconds
	}
	return s, tiers[s.tier], nil
}

func isTopic(series string) bool {
	return series != AllTopics && (len(series) < 6 || series[:6] != "shard/")
}
