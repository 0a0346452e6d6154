package test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/test/harness"
)

// TestGoClient: calls of the Go client that no other test makes to a server.
func TestGoClient(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{})
	t.Run("acks have results", i.goClientResults)
}

func (i *installation) goClientResults(t *testing.T) {
	c, result := i.client(t), json.RawMessage(`{"eur":42}`)
	i.MustPutTopic(t, "price", M{"delivery": "pull"})
	waitFor := func(who string) {
		job, err := c.Push(t.Context(), "price", client.Push{Body: json.RawMessage(`1`), Wait: 20 * time.Second})
		if err != nil || job.State != client.Done || string(job.Result) != string(result) {
			t.Errorf("the result of %s: %+v, %v", who, job, err)
		}
	}
	stop := runWorker(t, &client.Worker{
		Client: c, Topics: []string{"price"}, Handle: func(_ context.Context, job *client.LeasedJob) error {
			job.Result = result
			return nil
		},
	})
	waitFor("a Worker")
	stop()
	acked := make(chan error, 1)
	go func() {
		jobs, err := c.Reserve(t.Context(), client.Reserve{Topics: []string{"price"}, Wait: time.Minute})
		for _, job := range jobs {
			err = c.AckResult(t.Context(), job.Lease, result)
		}
		acked <- err
	}()
	waitFor("AckResult")
	must(t, <-acked)
}
