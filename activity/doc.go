// Package activity tells what lately happened to calls: the last attempts of each topic, its errors by kind, how late calls began and how
// many jobs of each priority were reserved. Dispatchers gather it in memory and put it into Redis once a second, off the path of jobs; it is
// for people to look at and for alerts, is bounded, and goes by itself. The exact numbers are queue.Totals.
//
//	dispatcher ── Record, a batch at a time ──> Recorder ── once a second ──> queue.Shard.Note ──> Redis <── Reader
package activity
