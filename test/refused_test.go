package test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/harness/process"
	"github.com/wakecall/wakecall/test/smtptest"
)

// saidWithin is how soon after an event pages, the API, the command line and mails say it.
const saidWithin = 30 * time.Second

// TestRefusedPushesAreSaid: the alert about the shard, its mails, the API, the command line and the pages say how many
// pushes were refused while Redis was away, why, and of which topic.
func TestRefusedPushesAreSaid(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	const pushes = 400
	smtp := smtptest.Start(t)
	r := harness.StartRedis(t, harness.RedisOptions{})
	i := start(t, onRedis(r))
	i.mailing(t, smtp, nil)
	checker := i.WaitRole("redis-checker", 1)
	v := &viewer{signIn(t, i.Wakecall), i.AdminURL()}
	topic := i.topic(t, nil, nil)
	i.MustPush(t, topic, M{"body": 1})
	// The mail about a shard that is down is sent at once: the pushes are refused before the shard is found to be down.
	goOn := process.Pause(t, checker...)
	r.Kill9()
	for n := range pushes {
		if a := i.Push(ctx, topic, M{"id": fmt.Sprint(n), "body": 1}); a.Status != http.StatusServiceUnavailable {
			t.Fatalf("push %d is answered %s", n, a)
		}
	}
	refused := fmt.Sprint(pushes, " pushes were refused")
	limited, cancel := context.WithTimeout(ctx, saidWithin)
	defer cancel()
	v.shows(t, "/", refused, topic)
	goOn()
	waitMail(t, smtp, "ops@test.example", "shard redis-1 is down", refused, topic)
	v.shows(t, "/", refused, topic)
	v.shows(t, "/topics/"+topic, refused)
	said := func(what string, say func() string) {
		t.Helper()
		harness.Eventually(t, soon, what+" to say it", func() error {
			if text := say(); !strings.Contains(text, refused) || !strings.Contains(text, topic) {
				return errors.New(text)
			}
			return nil
		})
	}
	said("the command line", func() string { return i.succeeds(t, "alert", "list") })
	said("the API", func() string { return string(i.Do(ctx, http.MethodGet, "/v1/alerts", nil).Body) })
	if limited.Err() != nil {
		t.Errorf("that took longer than %s", saidWithin)
	}
	if text := i.succeeds(t, "alert", "list"); strings.Count(text, refused) != 1 {
		t.Errorf("it is reported more than once:\n%s", text)
	}
	r.Restart()
	waitMail(t, smtp, "ops@test.example", "resolved: shard redis-1 is down", refused)
}

// TestAProcessThatKeepsDyingIsAnEvent: one for all its deaths, which says how many there were and how it died.
func TestAProcessThatKeepsDyingIsAnEvent(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	i := start(t, harness.Options{})
	v := &viewer{signIn(t, i.Wakecall), i.AdminURL()}
	for range 4 {
		pids := i.WaitRole("timer", 1)
		process.Kill9(t, pids[0])
		i.WaitRole("timer", 1, pids...)
	}
	said := "timer 1: 4 × (signal: killed)"
	body := v.shows(t, "/charts/marks?series=*", said)
	if strings.Count(body, "signal: killed") != 1 {
		t.Errorf("it is reported more than once:\n%s", body)
	}
}
