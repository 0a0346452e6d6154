// Package importer moves topics and waiting jobs from another system to Wakecall, while producers and consumers of both
// are still running. It contains what all imports share. The Source of each system is in the package of its protocol.
//
//	old queue ──Claim──▶ claims in the old store ──push──▶ Wakecall ──Drop──▶ gone
//
// Claim atomically moves jobs from the old queue to claims in the same store, so consumers of the old system no longer
// see them. If an import is killed, the next one begins with the remaining claims. Claims are numbered, and the journal
// records the claim of each push. A job with such a record was already pushed, and may have been delivered since. So
// was a job that was called after it was claimed.
//
// With --follow, an import recovers from errors in the same way: it waits, locks the old system again, and begins with
// the remaining claims.
package importer
