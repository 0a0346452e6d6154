package alert

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wakecall/wakecall/internal/registry"
)

// gone is a store that is always unavailable: the host relies on its own memory.
type gone struct{ Storage }

func (gone) RaiseAlert(_ context.Context, a Alert) (Alert, error) { return a, registry.ErrUnavailable }
func (gone) EndAlert(context.Context, string, string, time.Time) (bool, error) {
	return false, registry.ErrUnavailable
}
func (gone) ListAlerts(context.Context, Filter) ([]Alert, error) { return nil, registry.ErrUnavailable }
func (gone) ListTold(context.Context) (map[string]*Told, error)  { return nil, registry.ErrUnavailable }
func (gone) SaveTold(context.Context, string, *Told) (bool, error) {
	return false, registry.ErrUnavailable
}

// day is a host whose rounds get findings from a function, on a clock that the test moves.
type day struct {
	*Alerts
	began    time.Time
	settings Settings
	happens  func(at time.Duration) []Finding
	dead     func(at time.Duration) []DeadTopic
}

func newDay(t *testing.T, to ...string) *day {
	d := &day{began: time.Now(), settings: Defaults()}
	d.settings.Mail.Host = "mail.example"
	for _, line := range to {
		var r Recipient
		if err := r.UnmarshalText([]byte(line)); err != nil {
			t.Fatal(err)
		}
		d.settings.Recipients = append(d.settings.Recipients, r)
	}
	d.Alerts = New(Options{
		Store: gone{}, Host: "h1", Say: english(t), Settings: func() (Settings, error) { return d.settings, nil },
		Owner: func(topic string) string { return strings.SplitN(topic, ".", 2)[0] },
		Find: func(context.Context, Rules) ([]Finding, Judge) {
			return d.happens(time.Since(d.began)), func(Finding) bool { return true }
		},
		Dead: func(context.Context) []DeadTopic {
			if d.dead == nil {
				return nil
			}
			return d.dead(time.Since(d.began))
		},
	})
	return d
}

func (d *day) pass(t *testing.T, span time.Duration) {
	t.Helper()
	for end := time.Now().Add(span); time.Now().Before(end); time.Sleep(defaultEvery) {
		d.round(t.Context())
	}
}

// mails returns the mails to a recipient in order.
func (d *day) mails(to string) (list []*Message) {
	for x := range d.outbox.pending {
		if x.Recipient == to {
			list = append(list, x.message)
		}
	}
	slices.SortFunc(list, func(a, b *Message) int { return a.At.Compare(b.At) })
	return list
}

// log returns the mails of a recipient, for failure messages.
func (d *day) log(to string) string {
	var b strings.Builder
	for _, m := range d.mails(to) {
		fmt.Fprintf(&b, "\n--- after %s\n%s", m.At.Sub(d.began), m.Text())
	}
	return b.String()
}

func fails(topic string) Finding {
	return Finding{Topic: topic, Cause: Cause{Kind: "breaker", Severity: Critical, N: 10, Answer: "429"}}
}

func isLate(topic string) Finding {
	return Finding{Topic: topic,
		Cause: Cause{Kind: "late", Severity: Warning, N: 10, For: time.Minute, Limit: time.Second}}
}

// TestABadDayIsThreeMails to each person: 36 minutes with eight topics that begin to fail one after the other, one that
// is late repeatedly, jobs that die all the time, and an outage of the shard. Each failing topic is named, the outage
// at once.
func TestABadDayIsThreeMails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		people := []string{"ann@test.example", "bob@test.example"}
		d := newDay(t, people...)
		begins := map[string]time.Duration{
			"a.1": 10 * time.Second, "a.2": 15 * time.Second, "a.3": 30 * time.Second, "a.4": time.Minute,
			"b.1": 2 * time.Minute, "b.2": 5 * time.Minute, "b.3": 9 * time.Minute, "b.4": 15 * time.Minute,
		}
		outage := 20 * time.Minute
		d.happens = func(at time.Duration) (list []Finding) {
			for topic, from := range begins {
				if at >= from {
					list = append(list, fails(topic), isLate(topic))
				}
			}
			if at%(2*time.Minute) < 15*time.Second {
				list = append(list, isLate("c.flaps"))
			}
			if at >= outage && at < outage+90*time.Second {
				list = append(list, down)
			}
			return list
		}
		d.dead = func(time.Duration) []DeadTopic {
			return []DeadTopic{{Topic: "a.1", Recipients: people, Count: 3, Last: []DeadJob{{"job-1", "answered 500"}}}}
		}
		d.pass(t, 36*time.Minute)
		for _, to := range people {
			mails := d.mails(to)
			if len(mails) > 3 {
				t.Errorf("%s got %d mails:%s", to, len(mails), d.log(to))
			}
			log := d.log(to)
			for topic := range begins {
				if !strings.Contains(log, topic+": the endpoint is failing (critical, since") {
					t.Errorf("%s is not named:%s", topic, log)
				}
			}
			if first := mails[0].At.Sub(d.began); first > 45*time.Second || !strings.Contains(mails[0].Text(), "a.2") {
				t.Errorf("the first mail is sent after %s:%s", first, log)
			}
			told := slices.IndexFunc(mails, func(m *Message) bool { return strings.Contains(m.Subject(), "shard a is down") })
			if told < 0 || mails[told].At.Sub(d.began) > outage+defaultEvery {
				t.Errorf("the outage is not reported at once:%s", log)
			}
			if !strings.Contains(log, "returns 429") || !strings.Contains(log, "job-1: answered 500") {
				t.Errorf("the cause is not named:%s", log)
			}
		}
	})
}

// TestTheEndOfTheLastAlertIsReportedAtOnce if no alert is left; an alert that returns within minutes is not reported
// again.
func TestTheEndOfTheLastAlertIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDay(t, "ann@test.example")
		d.happens = func(at time.Duration) []Finding {
			if at < 5*time.Minute || at > 6*time.Minute && at < 8*time.Minute {
				return []Finding{fails("a")}
			}
			return nil
		}
		d.pass(t, 20*time.Minute)
		mails := d.mails("ann@test.example")
		if len(mails) != 2 || mails[0].Phase != Begins || mails[1].Phase != Ends ||
			mails[1].Subject() != "[Wakecall] resolved: topic a: the endpoint is failing" ||
			mails[1].At.Sub(d.began) > 10*time.Minute+2*defaultEvery || mails[1].Thread != mails[0].Thread {
			t.Errorf("the mails are%s", d.log("ann@test.example"))
		}
	})
}

// TestARestartEndsAnOutage, and the message says whether jobs were lost.
func TestARestartEndsAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDay(t, "ann@test.example")
		d.happens = func(at time.Duration) []Finding {
			if at < time.Minute {
				return []Finding{down}
			}
			return []Finding{restarted}
		}
		d.pass(t, 10*time.Minute)
		mails := d.mails("ann@test.example")
		if len(mails) != 2 || mails[1].Phase != Ends || !strings.Contains(mails[1].Text(), "it lost nothing") ||
			mails[1].At.Sub(d.began) > 2*time.Minute {
			t.Errorf("the mails are%s", d.log("ann@test.example"))
		}
	})
}

// TestAnOutageIsOverEvenIfTheShardIsSlow, and the message says that it is slow.
func TestAnOutageIsOverEvenIfTheShardIsSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDay(t, "ann@test.example")
		d.happens = func(at time.Duration) []Finding {
			if at < time.Minute {
				return []Finding{down}
			}
			return []Finding{slowShard}
		}
		d.pass(t, 10*time.Minute)
		mails := d.mails("ann@test.example")
		if len(mails) != 2 || mails[1].Subject() != "[Wakecall] resolved: shard a is down" ||
			!strings.Contains(mails[1].Text(), "shard a is slow: p99 1s") || mails[1].At.Sub(d.began) > 2*time.Minute {
			t.Errorf("the mails are%s", d.log("ann@test.example"))
		}
	})
}

// TestASecondOutageIsReportedAtOnce, even if another alert lasts and the end of the first was not reported yet.
func TestASecondOutageIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	for _, slow := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) { secondOutage(t, slow) })
	}
}

// secondOutage is an outage of a shard that was slow after the first outage, or healthy.
func secondOutage(t *testing.T, slow bool) {
	d := newDay(t, "ann@test.example")
	d.happens = func(at time.Duration) []Finding {
		if at > 5*time.Minute && at < 6*time.Minute || at > 8*time.Minute {
			return []Finding{fails("a"), down}
		}
		if at > 6*time.Minute && slow {
			return []Finding{fails("a"), {Shard: "a", Cause: Cause{Kind: "shard_slow", Severity: Warning}}}
		}
		return []Finding{fails("a")}
	}
	d.pass(t, 9*time.Minute)
	mails := d.mails("ann@test.example")
	if len(mails) != 3 || !strings.Contains(mails[2].Subject(), "shard a is down") {
		t.Errorf("the mails are%s", d.log("ann@test.example"))
	}
}

// TestNobodyGetsMoreThanTenMailsAnHour even if a shard goes down and up all day.
func TestNobodyGetsMoreThanTenMailsAnHour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDay(t, "ann@test.example")
		d.happens = func(at time.Duration) []Finding {
			if at%(3*time.Minute) < time.Minute {
				return []Finding{down}
			}
			return nil
		}
		d.pass(t, 3*time.Hour) // two mails every three minutes
		mails := d.mails("ann@test.example")
		for i := range mails {
			if i >= 10 && mails[i].At.Sub(mails[i-10].At) < time.Hour {
				t.Fatalf("mail %d is within an hour of ten others:%s", i, d.log("ann@test.example"))
			}
		}
		if len(mails) < 25 {
			t.Errorf("there are %d", len(mails))
		}
	})
}

// TestAcknowledgedAndMutedAlertsAreSilent: an acknowledged alert is not reported again until it is worse or over, a
// muted one not at all.
func TestAcknowledgedAndMutedAlertsAreSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDay(t, "ann@test.example")
		d.happens = func(at time.Duration) []Finding {
			list := []Finding{isLate("acked"), isLate("muted")}
			if at > 2*time.Hour {
				list = append(list, fails("acked"), fails("muted"))
			}
			return list
		}
		d.pass(t, time.Minute)
		d.open["topic/acked"].alert.Handling = Handling{By: "ann", Why: "on it"}
		d.open["topic/muted"].alert.Handling = Handling{By: "ann", Why: "known", Until: new(time.Now().Add(24 * time.Hour))}
		d.pass(t, 110*time.Minute)
		if mails := d.mails("ann@test.example"); len(mails) != 1 {
			t.Errorf("reminders of an acknowledged alert:%s", d.log("ann@test.example"))
		}
		d.pass(t, 50*time.Minute)
		mails := d.mails("ann@test.example")
		if len(mails) != 2 || !strings.Contains(mails[1].Text(), "topic acked: the endpoint is failing") ||
			strings.Contains(mails[1].Text(), "topic muted") {
			t.Errorf("the worse alert:%s", d.log("ann@test.example"))
		}
	})
}

// TestRecipientsGetTheirRoutes, by severity, topic and owner.
func TestRecipientsGetTheirRoutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDay(t, "all@test.example", "bad@test.example critical", "shop@test.example shop.*",
			"pay@test.example owner=pay critical", "Info <info@test.example> info")
		d.happens = func(time.Duration) []Finding {
			return []Finding{
				fails("pay.card"), isLate("pay.refund"), isLate("shop.close"), down,
				{Topic: "x.paused", Cause: Cause{Kind: "paused", Severity: Info, N: 7}},
			}
		}
		d.pass(t, 2*time.Minute)
		for to, want := range map[string]string{
			"all@test.example": "pay.card pay.refund shop.close shard a", "bad@test.example": "pay.card shard a",
			"shop@test.example": "shop.close", "pay@test.example": "pay.card",
			"info@test.example": "pay.card pay.refund shop.close shard a x.paused",
		} {
			for _, name := range []string{"pay.card", "pay.refund", "shop.close", "shard a", "x.paused"} {
				if has := strings.Contains(d.log(to), name); has != strings.Contains(want, name) {
					t.Errorf("%s gets a mail about %s: %v:%s", to, name, has, d.log(to))
				}
			}
		}
	})
}

// TestRoutesAreParsed from text and stored as text.
func TestRoutesAreParsed(t *testing.T) {
	t.Parallel()
	for typed, valid := range map[string]bool{
		"ops@test.example": true, "Ops <ops@test.example> critical shop.* owner=pay": true, "ops@test.example a*b": false,
		"nobody": false, "": false,
	} {
		var r Recipient
		if err := r.UnmarshalText([]byte(typed)); err != nil {
			t.Fatal(err)
		}
		if err := r.validate(); (err == nil) != valid {
			t.Errorf("%q: %v", typed, err)
		}
		if r.String() != typed {
			t.Errorf("%q is written as %q", typed, r.String())
		}
	}
}

func TestMessagesAreInTheLanguageOfTheSettings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDay(t, "ann@test.example")
		d.settings.Language = "zh-Hans"
		d.happens = func(time.Duration) []Finding { return []Finding{fails("a"), isLate("a"), down} }
		d.pass(t, time.Minute)
		if text := d.log("ann@test.example"); !strings.Contains(text, "分片 a 无法访问") ||
			!strings.Contains(text, "返回 429") || strings.Contains(text, "alerts.") || strings.Contains(text, "endpoint") {
			t.Errorf("the mail is%s", text)
		}
	})
}

// TestACauseThatJoinsWaitsForOthers: a shard's outage is over and reported as such, and its alert is still open because
// it was restarted. What joins it then begins a new episode, which waits like every other.
func TestACauseThatJoinsWaitsForOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDay(t, "ann@test.example")
		slow := 100 * time.Second
		d.happens = func(at time.Duration) []Finding {
			switch {
			case at < time.Minute:
				return []Finding{down}
			case at < slow:
				return []Finding{restarted}
			}
			return []Finding{restarted, slowShard}
		}
		d.pass(t, 10*time.Minute)
		mails := d.mails("ann@test.example")
		if len(mails) != 3 || mails[1].Phase != Ends || mails[2].Phase != Begins {
			t.Fatalf("the mails are%s", d.log("ann@test.example"))
		}
		if after := mails[2].At.Sub(d.began) - slow; after < d.settings.GroupWait.Std() {
			t.Errorf("the new cause is reported after %s:%s", after, d.log("ann@test.example"))
		}
	})
}

// TestLatenessSaysWhatIsKnown: the text leaves out waiting jobs, or calls, if there are none.
func TestLatenessSaysWhatIsKnown(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]Cause{
		"p99 of the callbacks of the last minute: 28s, obj":     {P99: 28 * time.Second},
		"8 jobs are ready, the oldest for 1m38s; objective: 5s": {N: 8, For: 98 * time.Second},
		"1 job is ready, for 9s; p99 of the last minute: 7s":    {N: 1, For: 9 * time.Second, P99: 7 * time.Second},
	} {
		c.Kind, c.Limit = "late", 5*time.Second
		if text := c.Say(english(t)("en"), brief); !strings.HasPrefix(text, want) {
			t.Errorf("%q, want %q", text, want)
		}
	}
}
