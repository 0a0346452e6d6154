package test

import (
	"context"
	"encoding/json"
	"errors"
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
	t.Run("topics are patched, paused and resumed", i.goClientTopics)
	t.Run("dead jobs are deleted", i.goClientDead)
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

func (i *installation) goClientTopics(t *testing.T) {
	c, until := i.client(t), time.Now().Add(time.Hour).Truncate(time.Second)
	i.MustPutTopic(t, "mail", M{"callback_url": i.endpoint.URL("/"), "owner": "ann"})
	before, err := c.Topic(t.Context(), "mail")
	must(t, err)
	patched, err := c.PatchTopic(t.Context(), "mail", json.RawMessage(`{"ttr":"5s","owner":null}`), before.ETag)
	if err != nil || patched.TTR.Std() != 5*time.Second || patched.Owner != "" || patched.CallbackURL == "" {
		t.Errorf("patched: %+v, %v", patched, err)
	}
	_, err = c.PatchTopic(t.Context(), "mail", json.RawMessage(`{"ttr":"6s"}`), before.ETag)
	if !errors.Is(err, client.ErrChanged) {
		t.Errorf("a patch of an old state: %v", err)
	}
	paused, err := c.PauseTopic(t.Context(), "mail", "shop is down", until)
	if err != nil || paused.State != "paused" || paused.PauseReason != "shop is down" || !paused.PausedUntil.Equal(until) {
		t.Errorf("paused: %+v, %v", paused, err)
	}
	resumed, err := c.ResumeTopic(t.Context(), "mail")
	if err != nil || resumed.State != "active" || resumed.PausedUntil != nil {
		t.Errorf("resumed: %+v, %v", resumed, err)
	}
	must(t, c.SetTopicState(t.Context(), "mail", "offline"))
	_, err = c.Push(t.Context(), "mail", client.Push{Body: json.RawMessage(`1`)})
	if !errors.Is(err, client.ErrConflict) {
		t.Errorf("a push to an offline topic: %v", err)
	}
}

func (i *installation) goClientDead(t *testing.T) {
	c := i.client(t)
	i.MustPutTopic(t, "dead", M{"delivery": "pull"})
	for range 2 {
		_, err := c.Push(t.Context(), "dead", client.Push{Body: json.RawMessage(`1`)})
		must(t, err)
		must(t, c.Bury(t.Context(), reserveOne(t, c, "dead").Lease, "bad"))
	}
	oldest := client.Selection{Limit: 1}
	for _, dryRun := range []bool{true, false} {
		oldest.DryRun = dryRun
		if n, err := c.DeleteDead(t.Context(), "dead", oldest); n != 1 || err != nil {
			t.Errorf("deleted %d, %v; dry run: %v", n, err, dryRun)
		}
	}
	if stats := i.MustStats(t, "dead"); stats.Dead != 1 {
		t.Errorf("left: %+v", stats)
	}
}
