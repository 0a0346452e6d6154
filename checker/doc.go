// Package checker is the redis-checker role: it pings every shard each second, reads its INFO every ten seconds, and
// judges the results.
//
// Each problem is a Finding with a beginning and an end. Findings go to the log, to /metrics and to the tree of
// processes; package alert reads them with Checker.Findings. The checker also counts jobs by topic and state, but only
// at a scrape of /metrics.
package checker
