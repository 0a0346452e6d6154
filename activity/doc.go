// Package activity records what happened to callbacks lately: the last attempts of each topic, its errors by kind,
// how late calls began, and how many jobs of each priority were reserved. Dispatchers collect it in memory and write
// it to Redis once a second, off the path of jobs. It is for the admin and for alerts, is bounded, and expires. The
// exact counters are queue.Totals.
//
//	dispatcher ── Record, a batch at a time ──> Recorder ── once a second ──> queue.Shard.Note ──> Redis <── Reader
package activity
