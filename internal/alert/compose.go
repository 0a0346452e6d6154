package alert

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// partLines is the maximum number of lines in a part of a message.
const partLines = 200

// compose returns a message with all the news.
func (a *Alerts) compose(n *news, say Say, now time.Time) *Message {
	m := &Message{At: now, Phase: n.phase()}
	lead := n.lead()
	switch {
	case m.Phase == Digest:
		m.Alert = Alert{Kind: "dead_jobs", Severity: Warning, Topic: n.dead[0].Topic, BeganAt: now, Host: a.opts.Host}
		m.Title = deadTitle(n.dead[0], say)
	default:
		slices.SortFunc(lead, WorstFirst)
		m.Alert = lead[0]
		m.Title = lead[0].Title(say)
	}
	m.Title = n.title(m, say, max(len(lead), len(n.dead)))
	m.Alert.Subject = m.Title
	m.Link = link(a.opts.AdminURL, &m.Alert)
	if len(n.begun)+len(n.still)+len(n.over)+len(n.dead) > 1 {
		m.Link = link(a.opts.AdminURL, &Alert{})
	}
	m.add(say("alerts.part_begun"), alertLines(n.begun, say, now), say)
	m.add(say("alerts.part_over"), overLines(n, say), say)
	m.add(say("alerts.part_still"), alertLines(n.still, say, now), say)
	m.add(say("alerts.part_dead"), deadLines(n.dead, say), say)
	return m
}

func (n *news) phase() Phase {
	_, ended := n.critical()
	switch {
	case len(n.begun) > 0:
		return Begins
	case len(n.over) > 0 && (!ended.IsZero() || !n.lasts()):
		return Ends
	case len(n.still) > 0:
		return Lasts
	}
	return Digest
}

// lead returns the alerts that the subject is about.
func (n *news) lead() []Alert {
	return map[Phase][]Alert{Begins: n.begun, Ends: n.over, Lasts: n.still}[n.phase()]
}

// title returns the subject: the most severe of several alerts, and the number of others.
func (n *news) title(m *Message, say Say, count int) string {
	title := m.Title
	if count > 1 {
		title = say("alerts.subject_more", count-1, title)
	}
	switch m.Phase {
	case Lasts:
		return say("alerts.subject_still", title)
	case Ends:
		return say("alerts.subject_over", title)
	}
	return title
}

// add adds a part unless it has no lines.
func (m *Message) add(title string, lines []string, say Say) {
	if len(lines) == 0 {
		return
	}
	if more := len(lines) - partLines; more > 0 {
		lines = append(lines[:partLines:partLines], say("alerts.part_more", more))
	}
	m.Parts = append(m.Parts, Part{title, lines})
}

func alertLines(list []Alert, say Say, now time.Time) (lines []string) {
	slices.SortFunc(list, WorstFirst)
	for _, a := range list {
		lines = append(lines, say("alerts.line", a.Title(say), say("alerts.severity_"+a.Severity), instant(a.since()),
			age(a.since(), now), strings.Join(a.causes(say), "; "))+acknowledged(&a, say))
	}
	return lines
}

func acknowledged(a *Alert, say Say) string {
	if h := a.Handling; h.Acknowledged() {
		return " " + say("alerts.acknowledged", h.By, h.Why)
	}
	return ""
}

// causes returns the causes that last in a language. All but the first one, which gives the alert its title, have their
// own beginning.
func (a *Alert) causes(say Say) []string {
	list := a.Details(say, brief)
	for i, c := range a.Current() {
		if i > 0 {
			list[i] = say("alerts.cause_since", list[i], instant(c.BeganAt))
		}
		if c.Flaps {
			list[i] += ", " + say("alerts.flaps")
		}
	}
	return list
}

func overLines(n *news, say Say) (lines []string) {
	for _, a := range n.over {
		line := overLine(say, a.Subject, a.BeganAt, *a.EndedAt)
		for _, c := range a.Causes {
			if c.Kind != a.Kind {
				line += "; " + overLine(say, say("alerts.title_"+c.Kind, a.Topic+a.Shard), c.BeganAt, c.EndedAt)
			}
		}
		if left, ok := n.left[a.Key]; ok {
			line += ". " + strings.Join(append([]string{left.Title(say)}, left.causes(say)...), ": ")
		}
		lines = append(lines, line)
	}
	return lines
}

func overLine(say Say, title string, began, ended time.Time) string {
	return say("alerts.line_over", title, instant(began), instant(ended), age(began, ended))
}

func deadLines(list []DeadTopic, say Say) (lines []string) {
	for _, d := range list {
		lines = append(lines, deadTitle(d, say))
		for _, j := range d.Last {
			lines = append(lines, j.ID+": "+j.Error)
		}
	}
	return lines
}

func deadTitle(d DeadTopic, say Say) string { return say("alerts.title_dead_jobs", d.Count, d.Topic) }

// age returns how long something has lasted. It is never negative, because the database rounds the start.
func age(began, now time.Time) string { return brief(max(0, now.Sub(began)).Round(time.Second)) }

func instant(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// link returns the address of the admin page about an alert.
func link(adminURL string, alert *Alert) string {
	if adminURL == "" {
		return ""
	}
	page := "/alerts"
	switch {
	case alert.Kind == "dead" || alert.Kind == "dead_jobs":
		page = "/dead?topic=" + url.QueryEscape(alert.Topic)
	case alert.Topic != "":
		page = "/topics/" + url.PathEscape(alert.Topic)
	case alert.Shard != "":
		page = "/shards"
	case alert.Kind == "registry" || alert.Kind == "journal":
		page = "/processes"
	case alert.Kind == "test":
		page = "/alerts/settings"
	}
	return strings.TrimRight(adminURL, "/") + page
}

// TestMessage returns a message for testing a channel.
func TestMessage(host, adminURL string, say Say) *Message {
	now := time.Now().UTC()
	m := &Message{Phase: Test, At: now, Title: say("alerts.test_subject"), Alert: Alert{
		Kind: "test", Severity: Warning, Subject: say("alerts.test_subject"), Host: host, BeganAt: now,
		Detail: say("alerts.test_text"),
	}}
	m.Parts = []Part{{Lines: []string{m.Alert.Detail, fmt.Sprint(host, ", ", instant(now))}}}
	m.Link = link(adminURL, &m.Alert)
	return m
}
