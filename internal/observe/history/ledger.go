package history

import (
	"github.com/wakecall/wakecall/internal/message"
)

// Reading holds the counts of a topic at one time.
type Reading struct {
	Totals
	Living
}

// Missing returns how many accepted jobs are in none of the counts. It is 0 if the ledger adds up, and negative if the
// counts exceed the accepted jobs.
func (r Reading) Missing() int64 {
	return r.Pushed - r.Delivered - r.Deleted - r.Dropped - r.Replaced - r.Jobs()
}

// Ledger is what happened to the accepted jobs.
func (r Reading) Ledger() message.Message {
	return message.New("finding.ledger",
		r.Pushed, r.Delivered, r.Deleted, r.Dropped, r.Replaced, r.Jobs(), r.Pushed-r.Missing())
}
