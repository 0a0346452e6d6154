// Package record writes changes that the queue accepted to the journal: one line for each job in a push, a change, a
// deletion, a re-drive or a move, with the revision of that change. No other package makes request lines, whoever asked
// for the change.
package record
