// Package test holds the integration tests: Wakecall's promises, one test each, checked from outside on real processes.
// See package harness for the means, and CONTRIBUTING.md for how to run a few of them.
package test
