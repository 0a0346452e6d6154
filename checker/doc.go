// Package checker is the redis-checker role: it pings every shard each second, looks closer every ten, and judges.
//
// What it finds wrong is a Finding with a beginning and an end. Findings go to the log, to /metrics and to the tree of processes,
// and to Options.Notify, which is where alerts attach. It also counts jobs by topic and state, but only when somebody scrapes.
package checker
