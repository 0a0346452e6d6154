package checker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/wakecall/wakecall/queue"
)

// Kind names what can be wrong with a shard.
type Kind string

// The kinds of findings.
const (
	Down       Kind = "down"        // three pings in a row failed
	Partial    Kind = "partial"     // pings are answered, but a part (a Cluster's master) does not tell about itself
	Slow       Kind = "slow"        // the 99th percentile of a minute's pings is over 100 ms
	Memory     Kind = "memory"      // over 85 % of maxmemory
	Eviction   Kind = "eviction"    // a maxmemory-policy that throws jobs away
	WriteError Kind = "write_error" // the append-only file or a save cannot be written
	LinkDown   Kind = "link_down"   // a replica lost its master
	Clock      Kind = "clock"       // more than two seconds off this host's
	Stepped    Kind = "stepped"     // the clock jumped against this host's monotonic one
	Restarted  Kind = "restarted"   // another server process answers, or its data is older than it was
)

// Finding is something wrong with a shard.
type Finding struct {
	Shard  string    `json:"shard"`
	Kind   Kind      `json:"kind"`
	Detail string    `json:"detail"`
	Since  time.Time `json:"since"`
	Ended  time.Time `json:"ended,omitzero"`
}

const (
	downAfter   = 3
	blindAfter  = 2
	slowOver    = 100 * time.Millisecond
	memoryOver  = 0.85
	clockOff    = 2 * time.Second
	stepOff     = time.Second
	pingsAMin   = 60
	fewestPings = 20 // below that a percentile says nothing
)

// watched is what is remembered of one shard between looks.
type watched struct {
	limit    time.Duration // of one ping
	compared bool          // somebody else tells that another server answers
	failures int           // of pings in a row
	blind    int           // looks in a row without an answer
	last     time.Duration
	pings    []time.Duration // that were answered in the last minute or so

	clock time.Time // Redis's, at
	at    time.Time // this moment here (monotonic)

	runID  string
	offset int64
}

// ping judges reachability, speed and clock. A kind with an empty detail does not hold.
func (w *watched) ping(ctx context.Context, s Shard) map[Kind]string {
	pctx, cancel := context.WithTimeout(ctx, w.limit)
	defer cancel()
	clock, took, err := s.Ping(pctx)
	if ctx.Err() != nil {
		return nil
	}
	w.last = took
	if err != nil {
		if w.failures++; w.failures >= downAfter {
			return map[Kind]string{Down: err.Error()}
		}
		return nil
	}
	if w.pings = append(w.pings, took); len(w.pings) > pingsAMin {
		w.pings = w.pings[1:]
	}
	w.failures = 0
	judged := map[Kind]string{Down: "", Slow: w.slow()}
	w.judgeClock(judged, clock, took)
	return judged
}

func (w *watched) slow() string {
	if len(w.pings) < fewestPings {
		return ""
	}
	sorted := slices.Sorted(slices.Values(w.pings))
	p99 := sorted[len(sorted)*99/100]
	if p99 <= slowOver {
		return ""
	}
	return fmt.Sprintf("the 99th percentile of %d pings is %s", len(sorted), p99.Round(time.Millisecond))
}

// judgeClock compares Redis's clock with the host's wall clock, and its course with the host's monotonic one: due times count by it.
func (w *watched) judgeClock(judged map[Kind]string, clock time.Time, took time.Duration) {
	now := time.Now()
	judged[Clock], judged[Stepped] = "", ""
	if off := clock.Sub(now.Round(0)); off > clockOff+took || off < -clockOff-took {
		judged[Clock] = fmt.Sprintf("Redis's clock is %s off this host's", off.Round(time.Millisecond))
	}
	if !w.at.IsZero() {
		if step := clock.Sub(w.clock) - now.Sub(w.at); step > stepOff+took || step < -stepOff-took {
			judged[Stepped] = fmt.Sprintf("Redis's clock jumped by %s", step.Round(time.Millisecond))
		}
	}
	w.clock, w.at = clock, now
}

// look asks a shard about itself. It is not up when the answer is no use.
func (w *watched) look(ctx context.Context, s Shard) queue.ShardHealth {
	ictx, cancel := context.WithTimeout(ctx, w.limit)
	defer cancel()
	return s.Health(ictx)
}

// judge judges what a shard told about itself.
func (w *watched) judge(h queue.ShardHealth) map[Kind]string {
	if !h.Up {
		if w.blind++; w.blind >= blindAfter {
			return map[Kind]string{Partial: h.Err}
		}
		return nil
	}
	w.blind = 0
	judged := map[Kind]string{Partial: "", Memory: "", Eviction: "", WriteError: h.WriteError, LinkDown: "", Restarted: w.restarted(h)}
	if h.MaxMemory > 0 && float64(h.Memory) > memoryOver*float64(h.MaxMemory) {
		judged[Memory] = fmt.Sprintf("%d MiB of %d MiB are used; raise maxmemory, or pushes will be refused", h.Memory>>20, h.MaxMemory>>20)
	}
	if h.MaxMemory > 0 && h.Policy != "noeviction" {
		judged[Eviction] = fmt.Sprintf("maxmemory-policy is %s and would throw jobs away: CONFIG SET maxmemory-policy noeviction", h.Policy)
	}
	if h.LinkDown {
		judged[LinkDown] = "a replica has lost its master"
	}
	return judged
}

func (w *watched) restarted(h queue.ShardHealth) string {
	detail := ""
	switch {
	case w.runID == "":
	case h.RunID != w.runID && w.compared:
	case h.RunID != w.runID:
		detail = "another server process answers (run id " + h.RunID + "): acknowledged jobs of its last second may be lost"
	case h.ReplOffset < w.offset:
		detail = fmt.Sprintf("its replication offset went back from %d to %d: acknowledged jobs may be lost", w.offset, h.ReplOffset)
	}
	w.runID, w.offset = h.RunID, h.ReplOffset
	return detail
}
