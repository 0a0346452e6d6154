// Package checker is the redis-checker role: it pings every shard each second, reads its INFO every ten seconds, and
// judges the results.
//
// Each problem is a Finding with a beginning and an end. Findings are shown in the log, in /metrics and by `wakecall
// ps`, and package alert reads them with Checker.Findings. The checker also counts jobs by topic and state, but only
// when /metrics is scraped.
package checker
