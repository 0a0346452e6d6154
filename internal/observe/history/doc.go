// Package history stores the data of charts. Every ten seconds, the Sampler reads the totals of the topics and the
// state of the shards, and stores samples in the registry's database. A Reader returns them as series.
//
// A sample contains the values of counters, which only grow, and of gauges at one time. Rates are computed when a chart
// is requested. The difference of two samples is exact whatever happened between them, so no event is lost when the
// sampler dies, moves to another host or misses rounds.
//
// Series are "*" (all topics), a topic's name, or shard/NAME. Each is stored in tiers, finer ones for a shorter time:
//
//	tier  every   kept      series            charts
//	10s   10 s    1 hour    *, shards         15m
//	1m    1 min   6 hours   all               3h (and 15m of a topic)
//	10m   10 min  2 days    all               24h
//	1h    1 hour  15 days   all               7d
//
// A topic is stored only after an event. Its last sample is then repeated for the previous slot, so that the rise is in
// the slot in which it happened.
//
// Only the host that holds the lease samples. Two at once would do no harm, because they would store the same numbers.
//
// The package also contains the equation of the ledger: pushed = delivered + deleted + dropped + replaced + live jobs,
// for a topic whose shards all answered.
package history
