package history

import "fmt"

// Reading is what was read of a topic at one time.
type Reading struct {
	Totals
	Living
}

// Missing is how many jobs were accepted and are in none of the counts; negative if there are more than were
// accepted. A ledger that adds up has none.
func (r Reading) Missing() int64 {
	return r.Pushed - r.Delivered - r.Deleted - r.Dropped - r.Replaced - r.Jobs()
}

// Ledger says what became of the accepted jobs.
func (r Reading) Ledger() string {
	return fmt.Sprintf("%d were accepted; %d delivered, %d deleted, %d dead ones deleted, %d replaced and %d live make %d",
		r.Pushed, r.Delivered, r.Deleted, r.Dropped, r.Replaced, r.Jobs(), r.Pushed-r.Missing())
}
