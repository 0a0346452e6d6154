package queue

import (
	"errors"
	"fmt"
	"sync"
	"testing"
)

// TestAClosedShardAnswersEveryCall: no caller waits for an answer that never arrives.
func TestAClosedShardAnswersEveryCall(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("t")
	pushes := f.s.nodes[0].pushes[Memory]
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for n := 0; ; n++ {
				if r := pushes.push(f.ctx, []Push{{Topic: "t", ID: fmt.Sprint(i, "-", n)}})[0]; r.Err != nil {
					return
				}
			}
		})
		wg.Go(func() {
			for {
				if _, err := f.s.Take(f.ctx, 0, []TakeRequest{{Topics: []string{"t"}, Max: 1}}, nil); err != nil {
					return
				}
			}
		})
	}
	eventually(t, "jobs are taken", func() bool {
		m, err := f.q.Stats(f.ctx, []string{"t"})
		return err == nil && m["t"].Running > 0
	})
	if err := f.s.close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
	for range 2 * maxFlying {
		var un *UnavailableError
		if _, err := f.s.Take(f.ctx, 0, []TakeRequest{{Topics: []string{"t"}, Max: 1}}, nil); !errors.As(err, &un) {
			t.Errorf("take: %v", err)
		}
	}
}
