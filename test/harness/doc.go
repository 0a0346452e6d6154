// Package harness runs Wakecall's tests against real processes: the wakecall binary, redis-server and MariaDB, each in
// a directory and on ports of its own, and endpoints that behave or misbehave as tests demand.
//
// It uses Wakecall only through its user interfaces: the HTTP API, the command line, signals, files, process titles.
//
// The Ledger judges a test with a fault. It records every push as attempted, and then as acknowledged, refused or
// unknown; the endpoint records every call. When the fault is over, every acknowledged job must have been called, or be
// visible as dead, or have been deleted; no job may have been called that was not attempted, or before its due time;
// and new jobs must be delivered.
//
// Nothing that the harness starts outlives the test process, however that ends: see guard.
package harness
