package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/wakecall/wakecall/test/harness"
)

// client pushes, changes and deletes jobs of its own, as an order system does.
type client struct {
	book  *book
	apis  []*harness.API
	rng   *rand.Rand
	name  string
	count int
	jobs  []*job // that may still be waiting
}

// pace is between what one client does.
const pace = 100 * time.Millisecond

func (c *client) run(ctx context.Context) {
	t := time.NewTicker(pace)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		switch n := c.rng.IntN(100); {
		case n < 70 || len(c.jobs) == 0:
			c.push()
		case n < 85:
			c.delete(c.take())
		case n < 95:
			c.change(c.take())
		default:
			c.runNow(c.take())
		}
	}
}

func (c *client) api() *harness.API { return c.apis[c.rng.IntN(len(c.apis))] }

var topics = []string{"good", "good", "good", "flaky", "slow", "doomed"}

// push tries again after an answer that leaves open what happened, with the same id, as clients should.
func (c *client) push() {
	c.count++
	j := c.book.pushing(harness.Key{Topic: topics[c.rng.IntN(len(topics))], ID: fmt.Sprintf("%s-%d", c.name, c.count)})
	delay := []time.Duration{0, 500 * time.Millisecond, 2 * time.Second, 5 * time.Second, 15 * time.Second}[c.rng.IntN(5)]
	fields := harness.M{
		"id": j.ID, "body": harness.M{"job": j.String()}, "delay": delay.String(),
		"priority": []string{"high", "normal", "low"}[c.rng.IntN(3)],
	}
	earliest := time.Now().Add(delay)
	for try := range 4 {
		if try > 0 {
			time.Sleep(time.Duration(try) * 300 * time.Millisecond)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 8*time.Second)
		ok := c.book.pushed(j, c.api().Push(ctx, j.Topic, fields), earliest)
		cancel()
		if ok {
			c.jobs = append(c.jobs, j)
			return
		}
	}
}

// take chooses one of the jobs, which may be over by now; each is touched once.
func (c *client) take() *job {
	i := c.rng.IntN(len(c.jobs))
	j := c.jobs[i]
	c.jobs = append(c.jobs[:i], c.jobs[i+1:]...)
	if len(c.jobs) > 50 {
		c.jobs = c.jobs[len(c.jobs)-50:]
	}
	return j
}

func (c *client) do(method, path string, body any) harness.Answer {
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Second)
	defer cancel()
	return c.api().Do(ctx, method, path, body)
}

func (c *client) delete(j *job) {
	c.book.deleting(j)
	c.book.removed(j, c.do(http.MethodDelete, harness.JobPath(j.Topic, j.ID), nil))
}

func (c *client) change(j *job) {
	c.book.changed(j, "change", c.do(http.MethodPatch, harness.JobPath(j.Topic, j.ID), harness.M{"delay": "3s"}))
}

func (c *client) runNow(j *job) {
	c.book.mu.Lock()
	j.anyTime = true
	c.book.mu.Unlock()
	c.book.changed(j, "run", c.do(http.MethodPost, harness.JobPath(j.Topic, j.ID)+"/run", nil))
}

// startLoad starts clients; stop returns when the last of them has its answer.
func startLoad(b *book, apis []*harness.API, clients int, rng *rand.Rand) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for n := range clients {
		c := &client{book: b, apis: apis, rng: rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64())), name: fmt.Sprintf("c%d", n)}
		wg.Go(func() { c.run(ctx) })
	}
	return sync.OnceFunc(func() { cancel(); wg.Wait() })
}
