package alert

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wakecall/wakecall/internal/message"
)

// TestABadDayIsFewMails to each person: 36 minutes with eight topics that begin to fail one after the other, one that
// is late repeatedly, jobs that die all the time, and an outage of the shard. Each failing topic is named within a
// minute, the outage at once, and there is no other mail.
func TestABadDayIsFewMails(t *testing.T) {
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
			if len(mails) > 9 { // six times topics begin to fail, the outage begins and ends, and jobs die all the time
				t.Errorf("%s got %d mails:%s", to, len(mails), d.log(to))
			}
			log := d.log(to)
			for topic, from := range begins {
				after := d.toldNew(to, "topic "+topic+": the endpoint is failing")
				if after > from+time.Minute {
					t.Errorf("%s fails after %s, and is named after %s:%s", topic, from, after, log)
				}
			}
			if first := mails[0].At.Sub(d.began); first > 45*time.Second || !strings.Contains(mails[0].Text(), "a.2") {
				t.Errorf("the first mail is sent after %s:%s", first, log)
			}
			isDown := func(m *Message) bool { return strings.Contains(m.Subject(), "shard a is down") }
			told := slices.IndexFunc(mails, isDown)
			if told < 0 || mails[told].At.Sub(d.began) > outage+defaultEvery {
				t.Errorf("the outage is not reported at once:%s", log)
			}
			if !strings.Contains(log, "returns 429") || !strings.Contains(log, "job-1: answered 500") {
				t.Errorf("the cause is not named:%s", log)
			}
		}
	})
}

// TestAMailIsShort: at most 1,500 characters with twenty problems, each a row or counted. What was reported before is
// counted, and the subject names the worst that is open.
func TestAMailIsShort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDay(t, ann)
		d.opts.AdminURL = "https://wakecall.example"
		d.dead = func(at time.Duration) (list []DeadTopic) {
			for i := range 20 {
				list = append(list, DeadTopic{Topic: fmt.Sprint("dies.", i), Recipients: []string{ann}, Count: 3,
					Last: []DeadJob{{fmt.Sprint("job-", i), "answered 500"}}})
			}
			return list
		}
		d.happens = func(at time.Duration) (list []Finding) {
			for i := range 20 {
				list = append(list, fails(fmt.Sprint("shop.orders.", i)), isLate(fmt.Sprint("shop.orders.", i)))
			}
			if at > 2*time.Minute && at < 4*time.Minute {
				list = append(list, down)
			}
			return list
		}
		d.pass(t, 40*time.Minute)
		all := d.log(ann)
		for _, m := range d.mails(ann) {
			if n := len(m.Text()); n > maxText || len(m.Parts) == 0 {
				t.Errorf("a mail has %d characters:\n%s", n, m.Text())
			}
		}
		for _, want := range []string{
			"topic shop.orders.0: the endpoint is failing: the endpoint returns 429 | 10 jobs | since 2000", " more\n",
			"20 ongoing alerts https://wakecall.example/alerts\n",
			"; still open: topic shop.orders.0: the endpoint is failing\n",
		} {
			if !strings.Contains(all, want) {
				t.Errorf("no mail says %q:%s", want, all)
			}
		}
	})
}

// TestDeadJobsLeaveRoomForAlerts: each alert that fits into a mail has its row, whatever died.
func TestDeadJobsLeaveRoomForAlerts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDay(t, ann)
		d.happens = func(time.Duration) (list []Finding) {
			for i := range 11 {
				list = append(list, fails(fmt.Sprint("shop.orders.", i)))
			}
			return list
		}
		d.dead = func(time.Duration) (list []DeadTopic) {
			for i := range 20 {
				list = append(list, DeadTopic{Topic: fmt.Sprint("dies.", i), Recipients: []string{ann}, Count: 3,
					Last: []DeadJob{{fmt.Sprint("job-", i), "answered 500"}}})
			}
			return list
		}
		d.pass(t, 5*time.Minute)
		all := d.log(ann)
		for i := range 11 {
			if row := fmt.Sprintf("topic shop.orders.%d: the endpoint is failing", i); !strings.Contains(all, row) {
				t.Errorf("no mail says %q:%s", row, all)
			}
		}
		if !strings.Contains(all, "job-0") {
			t.Errorf("no mail names a dead job:%s", all)
		}
	})
}

// TestDeadJobsAreReportedWithinTwoMinutes with their ids and errors, also soon after another message, and to somebody
// who got as many messages as an hour may have. More of them wait for ten minutes.
func TestDeadJobsAreReportedWithinTwoMinutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDay(t, ann)
		d.settings.MaxPerHour = 1
		d.happens = func(time.Duration) []Finding { return []Finding{fails("other")} }
		var dies []time.Duration
		d.dead = func(at time.Duration) (list []DeadTopic) {
			for len(dies) > 0 && dies[0] <= at {
				dies = dies[1:]
				list = append(list, DeadTopic{Topic: "a", Recipients: []string{ann}, Count: 1,
					Last: []DeadJob{{"job-1", "answered 500"}}})
			}
			return list
		}
		dies = []time.Duration{3 * time.Minute, 6 * time.Minute}
		d.pass(t, 5*time.Minute)
		digests := func() (n int) {
			for _, m := range d.mails(ann) {
				n += strings.Count(m.Text(), "job-1: answered 500")
			}
			return n
		}
		if digests() != 1 {
			t.Errorf("two minutes after a death:%s", d.log(ann))
		}
		d.pass(t, 5*time.Minute)
		if digests() != 1 {
			t.Errorf("more before ten minutes:%s", d.log(ann))
		}
		d.pass(t, 6*time.Minute)
		if digests() != 2 {
			t.Errorf("more are missing after ten minutes:%s", d.log(ann))
		}
	})
}

// TestWhatIsCriticalIsReportedWithinAMinute, and so is its end, while the next digest is far away.
func TestWhatIsCriticalIsReportedWithinAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDay(t, ann, "bob@test.example critical")
		began := map[string]time.Duration{"b": 2 * time.Minute, "c": 150 * time.Second, "d": 6 * time.Minute}
		const lasts = 5 * time.Minute
		d.happens = func(at time.Duration) []Finding {
			list := []Finding{isLate("a")}
			for topic, from := range began {
				if at >= from && at < from+lasts {
					list = append(list, fails(topic))
				}
				if at >= from && at < from+2*lasts { // the backlog of a topic outlasts its breaker
					list = append(list, isLate(topic))
				}
			}
			return list
		}
		d.pass(t, 30*time.Minute)
		for topic, from := range began {
			title := "topic " + topic + ": the endpoint is failing"
			for _, to := range []string{ann, "bob@test.example"} {
				if after := d.toldNew(to, title); after < from || after > from+time.Minute {
					t.Errorf("%s: %s fails after %s, reported after %s", to, topic, from, after)
				}
				if after := d.told(to, title+": 2000"); after < from+lasts || after > from+lasts+time.Minute {
					t.Errorf("%s: %s answers again after %s, reported after %s", to, topic, from+lasts, after)
				}
			}
		}
		if t.Failed() {
			t.Error(d.log(ann))
		}
	})
}

// TestWhatComesAndGoesHoldsNothingBack: a warning that came back twice in ten minutes stays open until it is gone for
// ten. Meanwhile the all-clear of another one is sent.
func TestWhatComesAndGoesHoldsNothingBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDay(t, ann)
		over, calm := 11*time.Minute, 33*time.Minute
		d.happens = func(at time.Duration) (list []Finding) {
			if at%(4*time.Minute) < 15*time.Second && at < calm {
				list = append(list, isLate("flaps"))
			}
			if at > time.Minute && at < over {
				list = append(list, isLate("a"))
			}
			return list
		}
		d.pass(t, time.Hour)
		sent := d.told(ann, "topic a is late: 2000")
		if sent < over || sent > over+d.settings.Rules.OverAfter.Std()+time.Minute {
			t.Errorf("the all-clear is sent after %s:%s", sent, d.log(ann))
		}
		var flaps []Alert
		for _, a := range d.store.ended {
			if a.Topic == "flaps" {
				flaps = append(flaps, a)
			}
		}
		last := 32*time.Minute + 10*time.Second
		if len(flaps) != 3 || flaps[2].EndedAt.Sub(d.began.Truncate(time.Microsecond)) != last {
			t.Errorf("the alerts are %+v", flaps)
		}
		if !strings.Contains(d.log(ann), "comes and goes") || len(d.mails(ann)) > 6 {
			t.Errorf("%d mails:%s", len(d.mails(ann)), d.log(ann))
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
				return []Finding{isLate("a")}
			}
			return nil
		}
		d.pass(t, 20*time.Minute)
		mails := d.mails("ann@test.example")
		if len(mails) != 2 || mails[0].Phase != Begins || mails[1].Phase != Ends ||
			mails[1].Subject() != "[Wakecall h1: warning] resolved: topic a is late" ||
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
			return []Finding{{Shard: "a",
				Cause: Cause{Kind: "shard_slow", Severity: Warning, Text: message.Plain("p99 1s")}}}
		}
		d.pass(t, 10*time.Minute)
		mails := d.mails("ann@test.example")
		if len(mails) != 2 ||
			!strings.HasSuffix(mails[1].Subject(), "warning] resolved: shard a is down; still open: shard a is slow") ||
			!strings.Contains(mails[1].Text(), "shard a is slow: p99 1s") || mails[1].At.Sub(d.began) > 2*time.Minute {
			t.Errorf("the mails are%s", d.log("ann@test.example"))
		}
	})
}

// TestASecondOutageIsReportedAtOnce, even if another alert lasts.
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
	if len(mails) != 4 || !strings.Contains(mails[2].Subject(), "resolved: shard a is down") ||
		!strings.Contains(mails[3].Subject(), "shard a is down") {
		t.Errorf("the mails are%s", d.log("ann@test.example"))
	}
}

// TestNobodyGetsMoreThanTenMailsAnHour even if one shard after the other is slow, all day.
func TestNobodyGetsMoreThanTenMailsAnHour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDay(t, "ann@test.example")
		d.happens = func(at time.Duration) []Finding {
			if at%(3*time.Minute) < time.Minute {
				return []Finding{{Shard: (at / (3 * time.Minute)).String(),
					Cause: Cause{Kind: "shard_slow", Severity: Warning}}}
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
		d.store.handled["topic/acked"] = Handling{By: "ann", Why: "on it"}
		d.store.handled["topic/muted"] = Handling{By: "ann", Why: "known", Until: new(time.Now().Add(24 * time.Hour))}
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

// TestACauseThatJoinsWaitsForOthers: a shard's outage is over and reported as such, and its alert is still open because
// it was restarted. What joins it then begins a new episode, which waits like every other.
func TestACauseThatJoinsWaitsForOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDay(t, "ann@test.example")
		slow := 100 * time.Second
		isSlow := Finding{Shard: "a",
			Cause: Cause{Kind: "shard_slow", Severity: Warning, Text: message.Plain("p99 1s")}}
		d.happens = func(at time.Duration) []Finding {
			switch {
			case at < time.Minute:
				return []Finding{down}
			case at < slow:
				return []Finding{restarted}
			}
			return []Finding{restarted, isSlow}
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
