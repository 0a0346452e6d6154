// Package record writes what the queue accepted to the journal: one line for each job that a push, a change, a
// deletion, a re-drive or a move concerned, with the revision of that change. It is the only place that makes request
// lines, whoever asked for the change.
package record
