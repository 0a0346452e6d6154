// Package activity records recent callbacks: the last attempts of each topic, its errors by kind, how late calls began,
// and how many jobs of each priority were reserved. Dispatchers collect these data in memory and write them to Redis
// once a second, off the path of jobs. They are for the admin and for alerts, bounded, and expire. The exact counters
// are in queue.Totals.
//
//	dispatcher ── Record, a batch at a time ──> Recorder ── once a second ──> queue.Shard.Note ──> Redis <── Reader
package activity
