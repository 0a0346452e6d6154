package health

import "time"

// Limits of the judge.
const (
	// DownAfter is how many consecutive pings must fail before a shard counts as down. One or two may just mean a
	// broken connection.
	DownAfter = 3
	// PartialAfter is how many consecutive INFOs must fail before a shard counts as partial.
	PartialAfter = 2
	// SlowPing is the 99th percentile of a minute's pings above which a shard is slow. A callback takes several round
	// trips, and should start within 10 ms of its due time.
	SlowPing = 100 * time.Millisecond
	// FewestPings is how many pings a percentile requires. With fewer, the slowest one would decide.
	FewestPings = 20
	// MemoryShare is the share of maxmemory above which a shard is nearly full. The rest must last until somebody
	// raises the limit; at the limit, pushes are refused.
	MemoryShare = 0.85
	// ClockOff is how far Redis's clock may differ from this host's, beyond a ping's duration. NTP keeps hosts within
	// milliseconds, and due times count by Redis's clock.
	ClockOff = 2 * time.Second
	// ClockStep is how far Redis's clock may jump relative to this host's monotonic one between two pings.
	ClockStep = time.Second
	// OldestRedis is the oldest major version whose scripts have flags.
	OldestRedis = 7
	// LargeTopic is how many jobs of a topic on one shard are too many: one Redis serves them all.
	LargeTopic = 10_000_000
	// LargeOnCluster is LargeTopic on a Cluster, which moves a key at once: with a million jobs it serves nothing else
	// for 1.5 s. Some providers move no key over 256 MB, 2.5 million jobs.
	LargeOnCluster = 1_000_000
)
