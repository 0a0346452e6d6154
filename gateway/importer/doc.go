// Package importer moves topics and waiting jobs from another system to Wakecall, while producers and consumers of both
// are still running. It contains what all imports share; the package of a protocol has the Source of its system.
//
//	old queue ──Claim──▶ claims in the old store ──push──▶ Wakecall ──Drop──▶ gone
//
// Claim moves jobs from the old queue to claims in the same store, in one step, so each job is always in exactly one of
// the two systems. If an import is killed, the next one begins with the remaining claims. A claim has a number, which
// the journal's lines of its pushes contain. A job with such a line was already pushed, and may have been delivered
// since; so was a job that was called after it was claimed.
//
// An import that follows does the same after an error: it waits, locks the old system again, and begins with the
// remaining claims.
package importer
