// Package describe has the phrases in which the command line and the assistant's tools describe what the API returns:
// times, why a job waits, how it ended, the state of an alert.
package describe
