// Package test holds the integration tests: Wakecall's promises, one test each, checked from outside on real processes.
// See package harness for the test harness, and CONTRIBUTING.md for how to run some of them.
package test
