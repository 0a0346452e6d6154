// Package checker is the redis-checker role: it pings every shard each second, reads its INFO every ten seconds, and
// judges what it sees.
//
// What is wrong is a Finding with a beginning and an end. Findings go to the log, to /metrics and to the tree of
// processes; package alert reads them with Checker.Findings. The checker also counts jobs by topic and state, at each
// scrape of /metrics and at no other time.
package checker
