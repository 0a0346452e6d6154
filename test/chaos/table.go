package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// table returns a table of the faults by kind, and the counts of the verdict.
func table(events []event, v verdict) string {
	type row struct {
		n              int
		longest, worst float64 // its duration, and the time until calls flowed again
	}
	rows := map[string]*row{}
	for _, e := range events {
		if e.Kind != evFault {
			continue
		}
		r := rows[e.Fault]
		if r == nil {
			r = &row{}
			rows[e.Fault] = r
		}
		r.n++
		r.longest = max(r.longest, e.End-e.At)
		r.worst = max(r.worst, e.Calm-e.End)
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "fault\ttimes\tlongest\tslowest recovery")
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		r := rows[name]
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", name, r.n, seconds(r.longest), seconds(r.worst))
	}
	_ = w.Flush() // to a Builder
	fmt.Fprintf(&b, "\njobs: %d pushed, %d acknowledged, %d refused, %d unknown; %d changed, %d deleted\n",
		v.Pushed, v.Acknowledged, v.Refused, v.Unknown, v.Changed, v.Deleted)
	fmt.Fprintf(&b, "calls: %d made, %d jobs taken by workers; %d delivered, %d dead, %d delivered more than once (%d "+
		"by no fault)\n",
		v.Calls, v.Taken, v.Delivered, v.Dead, v.Repeated, v.Unexplained)
	return b.String()
}

func seconds(ms float64) string {
	return (time.Duration(ms) * time.Millisecond).Round(10 * time.Millisecond).String()
}
