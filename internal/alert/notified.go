package alert

import (
	"crypto/rand"
	"maps"
	"slices"
	"time"
)

// Notified is what a receiver was notified about, and what is still to be reported to them.
type Notified struct {
	Alerts map[string]NotifiedAlert `json:"alerts"`          // by key: reported as open and not yet as resolved
	Dead   map[string]DeadTopic     `json:"dead"`            // by topic: not reported yet
	DeadAt time.Time                `json:"dead_at"`         // when the first of Dead was added
	Told   time.Time                `json:"told"`            // time of the last message with Dead
	Last   time.Time                `json:"last"`            // time of the last message
	Stage  int                      `json:"stage,omitempty"` // messages since all was well
	Sent   []time.Time              `json:"sent"`            // messages of the last hour
	Thread string                   `json:"thread"`

	unsaved bool
}

// NotifiedAlert is an alert that a receiver was notified about.
type NotifiedAlert struct {
	Key      string    `json:"-"`
	Kind     string    `json:"kind"`
	Severity string    `json:"severity"`
	Title    string    `json:"title"`
	Better   bool      `json:"better,omitempty"` // the alert is no longer critical
	BeganAt  time.Time `json:"began_at"`
	Ended    *Alert    `json:"ended,omitempty"` // the alert, when it has ended
}

// past returns the alert as it ended. left is the open alert if only what was reported has ended, and otherwise nil.
func (t *NotifiedAlert) past(left *Alert, now time.Time) Alert {
	a := Alert{Key: t.Key, Kind: t.Kind, BeganAt: t.BeganAt}
	switch {
	case left != nil:
		a = *left
	case t.Ended != nil:
		a = *t.Ended
	}
	a.Kind, a.Severity, a.Subject = t.Kind, t.Severity, t.Title
	a.Causes = slices.DeleteFunc(slices.Clone(a.Causes), Cause.lasts)
	ended := now
	if i := slices.IndexFunc(a.Causes, func(c Cause) bool { return c.Kind == t.Kind }); i >= 0 {
		a.BeganAt, ended = a.Causes[i].BeganAt, a.Causes[i].EndedAt
	}
	a.EndedAt = &ended
	return a
}

// is reports whether a is the same incident, rather than a later one about the same subject.
func (t *NotifiedAlert) is(a *Alert) bool { return t.BeganAt.Equal(a.BeganAt) }

// news is what could be reported to a receiver now.
type news struct {
	begun []Alert // or got worse
	over  []Alert
	left  map[string]Alert // those in over that are still open, but need no message
	drop  map[string]bool  // those in left that no longer concern the receiver
	still []Alert          // reported before
	dead  []DeadTopic
	first time.Time // when the first of begun began, or got worse
	nudge bool      // an alert in still is not acknowledged
}

// lasts reports whether something in begun or still does more than come and go.
func (n *news) lasts() bool {
	steady := func(a Alert) bool { return !a.flaps() }
	return slices.ContainsFunc(n.begun, steady) || slices.ContainsFunc(n.still, steady)
}

// critical returns when the first critical alert was found to begin, and when the first one truly ended.
func (n *news) critical() (found, ended time.Time) {
	for i := range n.begun {
		if at := n.begun[i].worseAt(); n.begun[i].Severity == Critical && (found.IsZero() || at.Before(found)) {
			found = at
		}
	}
	for _, a := range n.over {
		if a.Severity == Critical && (ended.IsZero() || a.EndedAt.Before(ended)) {
			ended = *a.EndedAt
		}
	}
	return found, ended
}

// news compares the open alerts with what a receiver was notified about. wants selects the alerts that concern the
// receiver.
func (t *Notified) news(open []Alert, wants func(*Alert) bool, now time.Time) (n news) {
	isOpen := map[string]bool{}
	n.left, n.drop = map[string]Alert{}, map[string]bool{}
	for _, a := range open {
		was, notified := t.Alerts[a.Key]
		if !wants(&a) && (!notified || a.Severity == Info) || was.Better && a.Severity != Critical {
			n.left[a.Key], n.drop[a.Key] = a, !wants(&a)
			continue
		}
		isOpen[a.Key] = true
		switch {
		case a.Handling.Muted(now):
		case !notified || was.Better || !was.is(&a) || rank(a.Severity) > rank(was.Severity):
			n.begun = append(n.begun, a)
			if at := a.worseAt(); n.first.IsZero() || at.Before(n.first) {
				n.first = at
			}
		default:
			n.still = append(n.still, a)
			n.nudge = n.nudge || !a.Handling.Acknowledged() && rank(a.Severity) >= rank(Warning)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(t.Alerts)) {
		if isOpen[key] {
			continue
		}
		was, left := t.Alerts[key], (*Alert)(nil)
		was.Key = key
		if open, ok := n.left[key]; ok {
			left = &open
		}
		n.over = append(n.over, was.past(left, now))
	}
	for _, topic := range slices.Sorted(maps.Keys(t.Dead)) {
		n.dead = append(n.dead, t.Dead[topic])
	}
	return n
}

// ended keeps an alert that has ended until the receiver is notified of it.
func (t *Notified) ended(a *Alert) {
	if was, notified := t.Alerts[a.Key]; notified && was.is(a) {
		was.Ended, t.unsaved = a, true
		t.Alerts[a.Key] = was
	}
}

// better marks the alerts that are no longer critical. It is news if they end or become critical again.
func (t *Notified) better(open []Alert) {
	for _, a := range open {
		was, notified := t.Alerts[a.Key]
		if notified && !was.Better && was.Severity == Critical && a.Severity != Critical {
			was.Better, t.unsaved = true, true
			t.Alerts[a.Key] = was
		}
	}
}

// due reports whether to send a message now.
//
// The first message of an episode waits for GroupWait, so that it includes everything that begins with it. Later news
// is sent DigestAfter after the first message, then every RemindAfter, with a reminder of what lasts. Nobody gets more
// than MaxPerHour of these messages. What becomes critical and what ends of it is sent within a minute, and the
// all-clear at once. What only comes and goes does not hold it up. Dead jobs are reported within two minutes, but only
// every deadPause.
func (t *Notified) due(n *news, s *Settings, now time.Time) bool {
	changed := len(n.begun)+len(n.over)+len(n.dead) > 0
	lasts := len(t.Alerts) > 0
	switch most := int(s.MaxPerHour); {
	case !changed && !n.nudge:
		return false
	case t.criticalDue(n, s, now), t.deadDue(n, s, now):
		return true
	case most > 0 && len(t.Sent) >= most && now.Sub(t.Sent[len(t.Sent)-most]) < time.Hour:
		return false
	case len(n.over) > 0 && !n.lasts():
		return true
	case !lasts && len(n.begun) > 0:
		return now.Sub(n.first) >= s.GroupWait.Std()
	case t.Stage == 1 && changed:
		return now.Sub(t.Last) >= min(s.DigestAfter, s.RemindAfter).Std()
	}
	return now.Sub(t.Last) >= s.RemindAfter.Std()
}

// What is critical for a topic waits criticalWait for others, and its end waits endWait after it is certain.
const (
	criticalWait = 30 * time.Second
	endWait      = 15 * time.Second
)

// criticalDue reports whether to send a message because of what became critical or ended: at once if it affects the
// whole installation, and within a minute if it is about a topic. MaxPerHour does not count.
func (t *Notified) criticalDue(n *news, s *Settings, now time.Time) bool {
	if slices.ContainsFunc(n.begun, func(a Alert) bool { return a.urgent() }) {
		return true
	}
	found, ended := n.critical()
	certain := s.criticalCalm() + min(s.GroupWait.Std(), endWait)
	return !found.IsZero() && now.Sub(found) >= min(s.GroupWait.Std(), criticalWait) &&
		now.Sub(t.Last) >= criticalWait ||
		!ended.IsZero() && now.Sub(ended) >= certain
}

// deadPause is the least time between messages because of dead jobs alone.
const deadPause = 10 * time.Minute

// deadDue reports whether to send a message because of dead jobs: within two minutes, but only every deadPause.
// MaxPerHour does not count.
func (t *Notified) deadDue(n *news, s *Settings, now time.Time) bool {
	return len(n.dead) > 0 && now.Sub(t.DeadAt) >= min(s.GroupWait.Std(), criticalWait) && now.Sub(t.Told) >= deadPause
}

func notifiedOf(a *Alert, say Say) NotifiedAlert {
	return NotifiedAlert{Key: a.Key, Kind: a.Kind, Severity: a.Severity, Title: a.was(say), BeganAt: a.BeganAt}
}

// after returns the receiver's state after a message with all the news.
func (t *Notified) after(n *news, say Say, now time.Time) *Notified {
	next := &Notified{
		Alerts: maps.Clone(t.Alerts), Last: now, Stage: t.Stage + 1, Thread: t.Thread, unsaved: true,
		Sent: append(
			slices.DeleteFunc(slices.Clone(t.Sent), func(at time.Time) bool { return now.Sub(at) > time.Hour }),
			now,
		),
	}
	if next.Told = t.Told; len(n.dead) > 0 {
		next.Told = now
	}
	if next.Alerts == nil {
		next.Alerts = map[string]NotifiedAlert{}
	}
	for _, a := range n.over {
		delete(next.Alerts, a.Key)
		if left, ok := n.left[a.Key]; ok && !n.drop[a.Key] && left.Severity != Info { // the message says so
			next.Alerts[a.Key] = notifiedOf(&left, say)
		}
	}
	for _, a := range n.begun {
		next.Alerts[a.Key] = notifiedOf(&a, say)
	}
	switch {
	case len(next.Alerts) == 0 && len(n.over) > 0:
		next.Stage, next.Thread = 0, ""
	case len(t.Alerts) == 0 && len(n.begun) > 0:
		next.Stage, next.Thread = 1, rand.Text()
	}
	return next
}

// calm ends an episode after a period without news.
func (t *Notified) calm(s *Settings, now time.Time) {
	if len(t.Alerts) == 0 && now.Sub(t.Last) >= s.RemindAfter.Std() {
		t.Stage, t.Thread = 0, ""
	}
}

// add adds dead jobs that are to be reported.
func (t *Notified) add(d DeadTopic, now time.Time) {
	if len(t.Dead) == 0 {
		t.Dead, t.DeadAt = map[string]DeadTopic{}, now
	}
	was := t.Dead[d.Topic]
	d.Count += was.Count
	d.Last = append(slices.Clone(d.Last), was.Last...)
	d.Last = d.Last[:min(len(d.Last), deadShown)]
	t.Dead[d.Topic], t.unsaved = d, true
}
