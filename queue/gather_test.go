package queue

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

// TestAClosedShardAnswersEveryCall: none waits for what nobody does any more.
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

// turnCall is a call that records when it is under way.
type turnCall struct{ answered[string] }

func (c *turnCall) jobs() int { return 1 }

// TestCallsTakeTurns unless many jobs wait, and what is done behind a call keeps nobody waiting.
func TestCallsTakeTurns(t *testing.T) {
	s := newFixture(t).s
	workers := newTurns()
	begun, end, rest := make(chan string), make(chan string), make(chan struct{})
	gather := func(name string, behind func()) *gatherer[*turnCall] {
		return newGatherer(s, maxFlying, maxTaken, workers, func(_ int, batch []*turnCall) func() {
			begun <- fmt.Sprint(len(batch), " ", name)
			for _, c := range batch {
				c.answer(<-end, nil)
			}
			return behind
		})
	}
	takes, ends := gather("takes", func() { <-rest }), gather("ends", nil)
	t.Cleanup(func() { close(end); close(rest) })
	add := func(g *gatherer[*turnCall], n int) {
		for range n {
			g.add(&turnCall{newAnswered[string]()})
		}
	}
	next := func(want string) {
		t.Helper()
		if got := <-begun; got != want {
			t.Fatalf("%s are called, want %s", got, want)
		}
	}
	add(takes, 1)
	next("1 takes")
	add(ends, 3)
	select {
	case got := <-begun:
		t.Fatalf("%s are called beside a take", got)
	case <-time.After(50 * time.Millisecond):
	}
	end <- ""
	next("3 ends") // though the take still does what is behind it
	add(takes, secondAt)
	next(fmt.Sprint(secondAt, " takes"))
}
