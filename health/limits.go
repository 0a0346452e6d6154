package health

import "time"

// The limits of the judge.
const (
	// DownAfter is how many pings in a row fail before a shard is down. One or two are a connection that broke.
	DownAfter = 3
	// PartialAfter is how many questions about itself in a row a shard leaves open before it is partial.
	PartialAfter = 2
	// SlowPing is the 99th percentile of a minute's pings above which a shard is slow: a callback takes several
	// round trips, and starts within 10 ms of its due time.
	SlowPing = 100 * time.Millisecond
	// FewestPings is how many pings a percentile needs: among fewer, the slowest one decides.
	FewestPings = 20
	// MemoryShare is the share of maxmemory above which a shard is nearly full. The rest has to last until somebody
	// raises the limit; at the limit pushes are refused.
	MemoryShare = 0.85
	// ClockOff is how far Redis's clock may be from this host's, beyond a ping's duration: NTP keeps hosts within
	// milliseconds, and due times count by Redis's clock.
	ClockOff = 2 * time.Second
	// ClockStep is how far Redis's clock may jump against this host's monotonic one between two pings.
	ClockStep = time.Second
	// OldestRedis is the oldest major version whose scripts have flags.
	OldestRedis = 7
)
