// Package harness runs Wakecall's tests against real processes: the wakecall binary, redis-server and MariaDB, each in
// a directory and on ports of its own, and endpoints that behave or misbehave as tests demand.
//
// It uses Wakecall only through its user interfaces: the HTTP API, the command line, signals, files, process titles.
//
// The Ledger judges a test with a fault, by the laws of package ledger. It records every push and delete as
// acknowledged, refused or unknown; the endpoint records every call. When the fault is over, every acknowledged job
// must have been delivered, or be visible as dead, or have been deleted, and new jobs must be called.
//
// Nothing that the harness starts outlives the test process, however that ends: see guard.
package harness
