package test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/test/harness"
)

// TestIdle: idle processes put no load on Redis, whether workers wait for jobs or not. The limits apply to ten seconds,
// the interval of infrequent tasks; less frequent ones may need another ten.
func TestIdle(t *testing.T) {
	t.Parallel()
	const topics, workers = 100, 500
	r := harness.StartRedis(t, harness.RedisOptions{})
	i := start(t, harness.Options{Env: map[string]string{"WAKECALL_REDIS_NODES": r.URL()}})
	list := make([]M, topics)
	for n := range list {
		list[n] = M{"name": fmt.Sprint("idle-", n), "delivery": "pull"}
	}
	i.MustDo(t, http.StatusOK, "PUT", "/v1/topics", M{"topics": list})
	commandsAtMost(t, r, 10)

	ctx, stop := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer stop()
	c := i.client(t)
	for n := range workers {
		waiting.Go(func() {
			for ctx.Err() == nil {
				_, _ = c.Reserve(ctx,
					client.Reserve{Topics: []string{fmt.Sprint("idle-", n%topics)}, Wait: 10 * time.Minute})
			}
		})
	}
	harness.Eventually(t, harness.Patience, "workers to wait for all topics", func() error {
		return harness.Equal("topics", r.Do("ZCARD", "wk:{0}:awaited"), any(int64(topics)))
	})
	commandsAtMost(t, r, 20)
}

// commandsAtMost waits for ten seconds in which Redis executes few commands per second, including those of scripts.
func commandsAtMost(t *testing.T, r *harness.Redis, most float64) {
	t.Helper()
	commands := func() float64 {
		text, err := r.Info("Stats", "total_commands_processed")
		must(t, err)
		n, err := strconv.ParseFloat(text, 64)
		must(t, err)
		return n
	}
	harness.Eventually(t, harness.Patience, "an idle Redis", func() error {
		before, began := commands(), time.Now()
		time.Sleep(10 * time.Second)
		if n := (commands() - before) / time.Since(began).Seconds(); n > most {
			return fmt.Errorf("it executes %.1f commands per second, more than %.0f", n, most)
		}
		return nil
	})
}
