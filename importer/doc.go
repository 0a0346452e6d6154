// Package importer moves topics and waiting jobs of another system to Wakecall, while producers and consumers of both
// still run. Each system is one file with an Old.
//
//	old queue ──Claim──▶ claims in the old store ──push──▶ Wakecall ──Drop──▶ gone
//
// Claim takes jobs out of the old queue into claims in the same store, in one step, so each job is in one of the two
// systems. When an import is killed, the next one begins with the claims that are left. A claim has a number, which the
// journal's lines of its pushes name: a job whose line is there was pushed already, and may have been delivered since;
// so was one that was called since it was claimed.
package importer
