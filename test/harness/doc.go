// Package harness runs Wakecall's tests against real processes: the wakecall binary, redis-server and MariaDB, each in
// a directory and on ports of its own, and endpoints that behave or misbehave as they are told.
//
// It knows Wakecall only by what its users touch: the HTTP API, the command line, signals, files, process titles.
//
// The judge of a test with a fault in it is the Ledger. Every push is attempted, and then acknowledged, refused or
// unknown; the endpoint notes every call. When the fault is over, of all that was acknowledged each job must have been
// called, or be visible as dead, or have been deleted; nothing may have been called that was not attempted, nor before
// its due time; and new work must go through.
//
// Nothing that the harness starts outlives the test process, however that ends: see guard.
package harness
