// Package ledger records what happened to jobs, and judges by counting: pushes, changes and deletes with their answers,
// calls, leases of workers, faults, and the jobs that are dead at the end. See Judge for the laws.
package ledger
