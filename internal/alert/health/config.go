package health

import (
	"strconv"
	"strings"

	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/store"
)

// setting is a setting of Redis that costs memory or loses data if its value is bad. The kind of that problem is the
// setting's name with underscores.
type setting struct {
	name     string
	severity Severity
	bad      func(h store.ShardHealth, value string) bool
}

var settings = []setting{
	{"appendfsync", Warning, func(_ store.ShardHealth, value string) bool { return value == "no" }},
	{"no-appendfsync-on-rewrite", Warning, func(_ store.ShardHealth, value string) bool { return value == "yes" }},
	{"hash-max-listpack-value", Hint, func(_ store.ShardHealth, value string) bool {
		n, err := strconv.Atoi(value)
		return err == nil && n < listpackValue
	}},
	{"save", Hint, func(h store.ShardHealth, value string) bool { return value != "" && h.AOF }},
	{"min-replicas-to-write", Hint, func(h store.ShardHealth, value string) bool {
		return value == "0" && h.Replicas > 0
	}},
}

const (
	// listpackValue is the length of the longest record. A hash with a longer value than hash-max-listpack-value is not
	// a listpack.
	listpackValue = 512
	// listpackSaves is how many bytes a job takes less, at least, if its topic's hash is a listpack.
	listpackSaves = 50
)

func settingNames() []string {
	var names []string
	for _, s := range settings {
		names = append(names, s.name)
	}
	return names
}

// judgeConfig judges the settings of a shard's masters.
func judgeConfig(h store.ShardHealth) []Problem {
	var list []Problem
	for _, s := range settings {
		for _, master := range h.Config {
			if value, known := master[s.name]; known && s.bad(h, value) {
				list = append(list, s.problem(h, value))
				break
			}
		}
	}
	return list
}

func (s setting) problem(h store.ShardHealth, value string) Problem {
	kind := strings.ReplaceAll(s.name, "-", "_")
	return Problem{
		Kind: Kind(kind), Severity: s.severity,
		Detail: message.New("finding."+kind, value, printable.Bytes(listpackSaves*h.SmallJobs)),
		Advice: message.New("finding." + kind + "_advice"),
	}
}
