// Package redistest starts the Redis of tests: single servers, and the kinds of deployments that Wakecall supports (see
// Deployment). Each server has a directory and a port of its own, and ends with the test.
package redistest
