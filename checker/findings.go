package checker

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/wakecall/wakecall/health"
)

// Finding is a problem of a shard.
type Finding struct {
	Shard  string      `json:"shard"`
	Kind   health.Kind `json:"kind"`
	Detail string      `json:"detail"`
	Since  time.Time   `json:"since"`
	Ended  time.Time   `json:"ended,omitzero"`
}

type key struct {
	shard string
	kind  health.Kind
}

// verdicts maps the judged kinds of problems to details; an empty detail means that the shard does not have the
// problem.
type verdicts map[health.Kind]string

// apply begins and ends findings.
func (c *Checker) apply(shard string, judged verdicts) {
	for kind, detail := range judged {
		if f, changed := c.record(key{shard, kind}, detail); changed {
			c.report(f)
		}
	}
}

// record begins or ends one finding, and reports whether it did.
func (c *Checker) record(k key, detail string) (f Finding, changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, held := c.findings[k]
	now := time.Now().UTC()
	switch {
	case k.kind == health.Restarted && now.Before(c.restarts[k.shard]):
		return f, false
	case held == (detail != ""):
		return f, false
	case held:
		delete(c.findings, k)
		f.Ended = now
	default:
		f = Finding{Shard: k.shard, Kind: k.kind, Detail: detail, Since: now}
		c.findings[k] = f
	}
	return f, true
}

// restartFor is how long a restart is shown. A restart is an event without an end in the shard's report.
const restartFor = time.Minute

// Restarted begins a finding about a server that restarted; detail says what happened to its jobs.
func (c *Checker) Restarted(shard, detail string) {
	c.mu.Lock()
	delete(c.restarts, shard)
	c.mu.Unlock()
	c.apply(shard, verdicts{health.Restarted: ""})
	c.apply(shard, verdicts{health.Restarted: detail})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.restarts[shard] = time.Now().Add(restartFor)
}

func (c *Checker) report(f Finding) {
	log := c.opts.Logger.With("shard", f.Shard, "finding", f.Kind)
	if f.Ended.IsZero() {
		log.Error("finding begins", "detail", f.Detail)
	} else {
		log.Info("finding ends", "lasted", f.Ended.Sub(f.Since).Round(time.Millisecond).String())
	}
	if c.opts.Notify != nil {
		c.opts.Notify(f)
	}
}

// forget drops the view of a shard that was removed, and ends its findings.
func (c *Checker) forget(shard string) {
	c.mu.Lock()
	delete(c.shards, shard)
	ended := verdicts{}
	for k := range c.findings {
		if k.shard == shard {
			ended[k.kind] = ""
		}
	}
	c.mu.Unlock()
	c.apply(shard, ended)
}

// Findings returns the present findings, by shard and kind.
func (c *Checker) Findings() []Finding {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := slices.SortedFunc(maps.Values(c.findings), func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Kind, b.Kind))
	})
	return append([]Finding{}, list...) // [] in JSON
}
