// Package activity records recent callbacks: the last attempts of each topic, its errors by kind, how late calls began,
// and how many jobs of each priority were reserved. Dispatchers collect this data in memory and write it to Redis once
// a second, without delaying jobs. It is for the admin and for alerts; it is bounded and expires. The exact counters
// are in queue.Totals.
//
//	dispatcher ── Record, a batch at a time ──> Recorder ── once a second ──> observe.Note ──> Redis <── Reader
//
//wakecall:figures
package activity
