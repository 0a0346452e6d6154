package checker

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/wakecall/wakecall/internal/alert/health"
	"github.com/wakecall/wakecall/internal/message"
)

// Finding is a problem of a shard.
type Finding struct {
	Shard  string          `json:"shard"`
	Kind   health.Kind     `json:"kind"`
	Detail message.Message `json:"detail"`
	Since  time.Time       `json:"since"`
	Ended  time.Time       `json:"ended,omitzero"`
}

type key struct {
	shard string
	kind  health.Kind
}

// verdicts maps the kinds of problems that were judged to their details. An empty detail means that the shard does not
// have the problem.
type verdicts map[health.Kind]message.Message

// apply begins and ends findings. It does not end a recent event.
func (c *Checker) apply(shard string, judged verdicts) {
	for kind, detail := range judged {
		k := key{shard, kind}
		if !detail.IsZero() || !c.isRecentEvent(k) {
			c.change(k, detail)
		}
	}
}

// eventFor is how long an event is shown. A restart or a step of the clock has no end that a shard reports, and package
// alert reads findings every few seconds.
const eventFor = time.Minute

func (c *Checker) isRecentEvent(k key) bool {
	if k.kind != health.Restarted && k.kind != health.Stepped {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f, held := c.findings[k]
	return held && time.Since(f.Since) < eventFor
}

// change begins or ends one finding. An empty detail ends it.
func (c *Checker) change(k key, detail message.Message) {
	if f, changed := c.record(k, detail); changed {
		c.report(f)
	}
}

// record begins or ends one finding, and reports whether it did. It updates the detail of a finding that continues.
func (c *Checker) record(k key, detail message.Message) (f Finding, changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, held := c.findings[k]
	now := time.Now().UTC()
	switch {
	case !held && detail.IsZero():
		return f, false
	case held && !detail.IsZero():
		f.Detail = detail
		c.findings[k] = f
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

// Restarted begins a finding about a server that restarted. detail says what happened to its jobs.
func (c *Checker) Restarted(shard string, detail message.Message) {
	k := key{shard, health.Restarted}
	c.change(k, none)
	c.change(k, detail)
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

// forget drops the view of a removed shard and ends its findings.
func (c *Checker) forget(shard string) {
	c.mu.Lock()
	delete(c.shards, shard)
	c.mu.Unlock()
	for _, f := range c.Findings() {
		if f.Shard == shard {
			c.change(key{shard, f.Kind}, none)
		}
	}
}

// Findings returns the current findings, sorted by shard and kind.
func (c *Checker) Findings() []Finding {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := slices.SortedFunc(maps.Values(c.findings), func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Kind, b.Kind))
	})
	return append([]Finding{}, list...) // [] in JSON
}
