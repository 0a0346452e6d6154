package alert

import (
	"slices"
	"strings"
	"time"
)

// Group are the open alerts of one owner's topics that have the same cause. Every other alert is a group of its own.
type Group struct {
	Key    string
	Owner  string
	Alerts []Alert
}

// GroupByCause groups alerts, which keep their order. Groups that need nobody come last.
func GroupByCause(list []Alert, owner func(topic string) string, now time.Time) []*Group {
	var urgent, calm []*Group
	byKey := map[string]*Group{}
	for _, a := range list {
		key, of := a.Key, owner(a.Topic)
		if a.Topic != "" {
			key = strings.Join([]string{a.Kind, a.worst().Answer, of, a.state(now)}, "/")
		}
		if g := byKey[key]; g != nil {
			g.Alerts = append(g.Alerts, a)
			continue
		}
		byKey[key] = &Group{key, of, []Alert{a}}
		if a.Calm(now) {
			calm = append(calm, byKey[key])
			continue
		}
		urgent = append(urgent, byKey[key])
	}
	return slices.Concat(urgent, calm)
}

// Colors of problems. Red means that somebody has to act.
const (
	Red    = "red"
	Orange = "orange"
	Azure  = "azure"
	Grey   = "secondary"
)

// Color returns the color of the alert on pages.
func (a *Alert) Color(now time.Time) string {
	switch {
	case a.Calm(now):
		return Grey
	case a.Severity == Warning:
		return Orange
	case a.Severity == Info:
		return Azure
	}
	return Red
}

// Calm reports whether nobody has to act on the alert: it has ended, is muted, acknowledged or recovering.
func (a *Alert) Calm(now time.Time) bool { return a.state(now) != "" }

func (a *Alert) state(now time.Time) string {
	switch {
	case a.EndedAt != nil:
		return "ended"
	case a.Handling.Muted(now):
		return "muted"
	case a.Handling.Acknowledged():
		return "acknowledged/" + a.Handling.By + "/" + a.Handling.Why
	case a.worst().Recovering:
		return "recovering"
	}
	return ""
}

// worst returns the cause that gives the alert its title.
func (a *Alert) worst() (c Cause) {
	if len(a.Causes) > 0 {
		c = a.Causes[0]
	}
	return c
}

// Since returns when the first of the alerts began.
func (g *Group) Since() time.Time {
	return slices.MinFunc(g.Alerts, func(x, y Alert) int { return x.BeganAt.Compare(y.BeganAt) }).BeganAt
}

// Title returns in a language what is wrong, with how many topics, and whose they are.
func (g *Group) Title(say Say) string {
	a := &g.Alerts[0]
	if n := len(g.Alerts); n > 1 {
		if g.Owner == "" {
			return say("alerts.topics", n, a.what(say))
		}
		return say("alerts.topics_of", n, g.Owner, a.what(say))
	}
	if g.isAnswer() {
		return say("alerts.topic", a.Topic, a.what(say))
	}
	return a.Title(say)
}

// Detail returns what the title leaves out of a single alert.
func (g *Group) Detail(say Say, duration func(time.Duration) string) string {
	if list := g.Alerts[0].Details(say, duration); len(g.Alerts) == 1 && len(list) > 0 && !g.isAnswer() {
		return list[0]
	}
	return ""
}

// isAnswer reports whether the cause is an endpoint's answer.
func (g *Group) isAnswer() bool {
	c := g.Alerts[0].worst()
	return c.Kind == "breaker" && c.answered() && !c.Recovering
}

// what returns what is wrong, without the topic.
func (a *Alert) what(say Say) string {
	kind := say("alerts.kind_" + a.Kind)
	switch c := a.worst(); {
	case c.Recovering:
		return say("alerts.recovering", kind)
	case c.answered():
		return say("alerts.endpoint", c.answer(say))
	}
	return strings.ToLower(kind)
}
