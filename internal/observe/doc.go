// Package observe has the figures that people see, none of which a job needs: a Figures is a queue with them.
//
//	totals.go        how many jobs of a topic did what, by day; which topics were active
//	notes.go         what dispatchers note about callbacks: the latest attempts, errors, how late jobs were
//	standing.go      what stands before a ready job, and the limits of topics
//	forecast.go      when jobs become due
//	scripts.go       their scripts; each has its text in lua/
//
// Packages below: activity has the recent callbacks, history the samples of charts, forecast says when waiting jobs are
// cleared, and waits why a job is not being called.
//
// Figures may be late, and may lose a few counts when a Redis fails; nothing that happens to a job depends on them.
//
//wakecall:figures
package observe
