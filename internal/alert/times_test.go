package alert

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/observe"
)

// TestEachCauseHasItsOwnTimes in mails, webhooks and the stored alert: a shard is slow, dies 13 minutes later, answers
// again after half an hour, and is slow for five minutes more.
func TestEachCauseHasItsOwnTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDay(t, ann)
		died, back := 13*time.Minute, 43*time.Minute
		d.happens = func(at time.Duration) []Finding {
			slow := Finding{Shard: "a",
				Cause: Cause{Kind: "shard_slow", Severity: Warning, Text: message.Plain("p99 1s")}}
			switch {
			case at < died || at >= back && at < back+5*time.Minute:
				return []Finding{slow}
			case at < back:
				return []Finding{slow, down}
			}
			return nil
		}
		d.pass(t, time.Hour)
		clock := func(after time.Duration) string { return instant(d.began.Add(after)) }
		var all strings.Builder
		for _, m := range d.mails(ann) {
			all.WriteString(m.Text() + "\n")
		}
		for _, want := range []string{
			"shard a is slow: p99 1s | since " + clock(0) + " | warning",
			"shard a is down: connection <refused>; p99 1s (since " + clock(0) + ") | since " +
				clock(died) + " | critical",
			"shard a is down: " + clock(died) + " to " + clock(back-defaultEvery) + ", lasted 29m55s",
			"shard a is slow: " + clock(0) + " to " + clock(back+5*time.Minute-defaultEvery) + ", lasted 47m55s",
		} {
			if !strings.Contains(all.String(), want) {
				t.Errorf("no mail says %q:%s", want, d.log(ann))
			}
		}
		stored, err := json.Marshal(d.store.ended)
		if err != nil || len(d.store.ended) != 1 || !strings.Contains(string(stored), `"kind":"shard_down"`) {
			t.Fatalf("stored are %s, %v", stored, err)
		}
		a := d.store.ended[0]
		if last := a.EndedAt.Sub(d.began.Truncate(time.Microsecond)); last != back+5*time.Minute-defaultEvery {
			t.Errorf("the alert ended after %s", last)
		}
		if c := a.Causes[0]; c.Kind != "shard_down" || c.EndedAt.Sub(c.BeganAt) != back-died-defaultEvery {
			t.Errorf("the first cause is %+v", c)
		}
	})
}

// TestARuleAboutMinutesKnowsWhenItsProblemEnded: an endpoint answers again, and the rule about five minutes finds its
// failures for a while longer.
func TestARuleAboutMinutesKnowsWhenItsProblemEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, watch := newWorld()
		w.active = []string{"a"}
		d := newDay(t, ann)
		d.settings.Rules.Breaker = false
		broke, back := 10*time.Minute, 20*time.Minute
		var n observe.Totals
		d.opts.Find = func(context.Context, Rules) ([]Finding, Judge) {
			if at := time.Since(d.began); at >= broke && at < back {
				n.Failed += 10
			} else {
				n.Delivered, n.Pushed = n.Delivered+10, n.Pushed+10
			}
			w.totals["a"] = observe.TopicTotals{Total: n}
			return watch.Find(t.Context(), d.settings.Rules)
		}
		d.pass(t, time.Hour)
		if len(d.store.ended) != 1 {
			t.Fatalf("the alerts are %+v, %+v", d.store.ended, d.store.open)
		}
		a := d.store.ended[0]
		began, ended := a.BeganAt.Sub(d.began), a.EndedAt.Sub(d.began)
		if (began-broke).Abs() > runGap || (ended-back).Abs() > 2*defaultEvery {
			t.Errorf("it began after %s, ended after %s; in truth %s and %s", began, ended, broke, back)
		}
		if !strings.Contains(d.log(ann), "lasted "+age(a.BeganAt, *a.EndedAt)) {
			t.Errorf("no mail says so:%s", d.log(ann))
		}
	})
}

// TestAnAlertmanagerGetsTheTimesOfACause: it ended before its alert did, and before its end was certain.
func TestAnAlertmanagerGetsTheTimesOfACause(t *testing.T) {
	t.Parallel()
	srv := startAlertmanager(t)
	m := newAlertmanager(srv.URL+"/am", "http://admin.example", http.DefaultClient, func(error) {})
	now := time.Now()
	a := &Alert{Key: "shard/a", Shard: "a", Causes: []Cause{{Kind: "shard_slow", Severity: Warning, BeganAt: now},
		{Kind: "shard_down", Severity: Critical, BeganAt: now.Add(-time.Hour)}}}
	m.update(t.Context(), []*Alert{a}, english(t)("en"), now)
	m.wait()
	a.Causes[1].EndedAt = now.Add(-time.Minute)
	for range 2 {
		now = now.Add(resendEvery)
		m.update(t.Context(), []*Alert{a}, english(t)("en"), now)
		m.wait()
	}
	if got, _ := srv.state("WakecallShardDown a critical"); !got.StartsAt.Equal(a.Causes[1].BeganAt) ||
		!got.EndsAt.Equal(a.Causes[1].EndedAt) {
		t.Errorf("it got %+v", got)
	}
	if len(m.alerts) != 1 {
		t.Errorf("it still has %+v", m.alerts)
	}
}
