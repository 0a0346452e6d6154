// Package history keeps what happened over time, for charts: the Sampler reads the totals of the topics and the state of the shards every
// ten seconds and stores samples in the registry; a Reader answers series of them.
//
// A sample holds counters as they stood at an instant (they only grow) and gauges as they were then. Rates are made when somebody looks: the
// difference of two samples is exact whatever happened between them, so a sampler that dies, changes hosts or misses rounds loses no event.
//
// Series are "*" (all topics), a topic's name, or shard/NAME. Each is kept in tiers, the finer the shorter:
//
//	tier  every   kept      series            answers
//	10s   10 s    1 hour    *, shards         15m
//	1m    1 min   6 hours   all               3h (and 15m of a topic)
//	10m   10 min  2 days    all               24h
//	1h    1 hour  15 days   all               7d
//
// A topic is stored only when something happened to it; its last sample before that is stored again at the slot before, so that the rise
// lies where it happened.
//
// One host samples: the one that holds the registry's lease. Two of them at once do no harm, as they would store the same numbers.
//
// The package also checks the ledger: pushed = delivered + deleted + dropped + replaced + what lives, for every topic whose shards all answered.
package history
