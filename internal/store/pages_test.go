package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// TestPagesOfJobsOfOneInstant: jobs that were pushed one by one for the same instant are listed once each.
func TestPagesOfJobsOfOneInstant(t *testing.T) {
	f := newFixture(t)
	const jobs = 60
	for n := range jobs {
		f.push("t", fmt.Sprint(n), 0, func(p *store.Push) { p.DueAt, p.Priority = time.UnixMilli(1e12), store.Priority(n%3) })
	}
	for limit := 1; limit < jobs; limit += 4 {
		seen, cursor := map[string]int{}, ""
		for more := true; more; more = cursor != "" {
			list, next, err := f.q.List(f.ctx, "t", store.Ready, cursor, limit)
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range list {
				seen[j.ID]++
			}
			cursor = next
		}
		for n := range jobs {
			if id := fmt.Sprint(n); seen[id] != 1 {
				t.Errorf("with %d jobs a page, %s is listed %d times", limit, id, seen[id])
			}
		}
	}
}
