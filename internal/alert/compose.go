package alert

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
)

// A message has at most maxText bytes, so each part has at most partLines lines, or fewer: dead jobs give way to
// alerts.
const (
	maxText   = 1500
	partLines = 20
)

var phaseTexts = map[Phase]string{Lasts: "alerts.subject_still", Ends: "alerts.subject_over"}

// compose returns a message with all the news.
func (a *Alerts) compose(n *news, say Say, now time.Time) *Message {
	m := &Message{
		At: now, Phase: n.phase(), Installation: installation(a.opts.AdminURL, a.opts.Host), Alerts: n.alerts(say),
	}
	lead := n.lead()
	if m.Phase == Digest {
		m.Alert = Alert{Kind: "dead_jobs", Severity: Warning, Topic: n.dead[0].Topic, BeganAt: now, Host: a.opts.Host}
		m.Title = deadTitle(n.dead[0], say)
	} else {
		slices.SortFunc(lead, WorstFirst)
		m.Alert = lead[0]
		m.Title = lead[0].Title(say)
	}
	if others := max(len(lead), len(n.dead)) - 1; others > 0 {
		m.Title = say("alerts.subject_more", others, m.Title)
	}
	if key := phaseTexts[m.Phase]; key != "" {
		m.Title = say(key, m.Title)
	}
	severity := m.Alert.Severity
	if worst := n.worst(); worst != nil {
		m.Open, severity = true, worst.Severity
		if m.Phase == Ends || rank(worst.Severity) > rank(m.Alert.Severity) {
			m.Title = say("alerts.subject_open", m.Title, worst.Title(say))
		}
	}
	m.Alert.Subject, m.Level = m.Title, say("alerts.severity_"+severity)
	m.Link = link(a.opts.AdminURL, &m.Alert)
	if len(n.begun)+len(n.still)+len(n.over)+len(n.dead) > 1 {
		m.Link = link(a.opts.AdminURL, &Alert{})
	}
	for left := 2*partLines + 1; left > 0; left-- {
		most, dead := min(left, partLines+1), max(left-partLines, 1)
		m.Parts = nil
		m.add(say("alerts.part_begun"), a.rows(n.begun, left <= 2*partLines, say), most, say)
		m.add(say("alerts.part_over"), a.overLines(n, say), most, say)
		if len(n.still) > 0 {
			all := link(a.opts.AdminURL, &Alert{})
			text := strings.TrimRight(" "+all, " ")
			m.add("", []Line{{Title: say("alerts.part_still", len(n.still)), Link: all, Text: text}}, most, say)
		}
		m.add(say("alerts.part_dead"), a.deadLines(n.dead, say), dead, say)
		if len(m.Text()) <= maxText {
			break
		}
	}
	return m
}

// worst returns the most severe alert that is open; nil: none is.
func (n *news) worst() *Alert {
	open := slices.Concat(n.begun, n.still)
	for key, left := range n.left {
		if !n.drop[key] {
			open = append(open, left)
		}
	}
	if len(open) == 0 {
		return nil
	}
	worst := slices.MinFunc(open, WorstFirst)
	return &worst
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

// add adds a part with at most this many lines, unless it has none.
func (m *Message) add(title string, lines []Line, most int, say Say) {
	if len(lines) == 0 {
		return
	}
	if more := len(lines) - most; more > 0 {
		lines = append(lines[:most:most], Line{Text: say("alerts.part_more", more)})
	}
	m.Parts = append(m.Parts, Part{title, lines})
}

// alerts returns all alerts with their texts in a language.
func (n *news) alerts(say Say) []Alert {
	list := slices.Concat(n.begun, n.over, n.still)
	for i := range list {
		a := &list[i]
		a.Subject, a.Detail = a.Title(say), strings.Join(a.Details(say, brief), "; ")
	}
	return list
}

// installation returns the name of the installation in subjects: the public name of its admin. An admin that only this
// machine can reach has the name of the host.
func installation(adminURL, host string) string {
	if u, err := url.Parse(adminURL); err == nil && u.Hostname() != "" && u.Hostname() != "localhost" {
		if ip := net.ParseIP(u.Hostname()); ip == nil || !ip.IsLoopback() {
			return u.Hostname()
		}
	}
	name, _, _ := strings.Cut(host, " ") // without its data_dir
	return name
}

// rows returns a row of a table for each alert: its title and causes, the jobs, since when, and the severity. terse
// leaves out all but what the first cause is about.
func (a *Alerts) rows(list []Alert, terse bool, say Say) (lines []Line) {
	slices.SortFunc(list, WorstFirst)
	for _, x := range list {
		what := x.causes(say)
		if c := x.Current()[0]; terse {
			what = what[:1]
			switch {
			case c.Recovering:
			case c.answered():
				what[0] = say("alerts.endpoint", c.answer(say))
			case !c.Forecast.IsZero(): // the jobs have a cell of their own
				what[0] = c.Forecast.Say(say, brief)
			}
		}
		cells := []string{
			x.Title(say) + ": " + strings.Join(what, "; "), "", say("alerts.row_since", instant(x.since())),
			say("alerts.severity_" + x.Severity),
		}
		if n := x.jobs(); n > 0 {
			cells[1] = say("alerts.row_jobs", n)
		}
		lines = append(lines, Line{Link: link(a.opts.AdminURL, &x), Cells: cells})
	}
	return lines
}

// jobs returns how many jobs wait or are dead because of the alert, as far as its causes know.
func (a *Alert) jobs() (n int64) {
	for _, c := range a.Current() {
		if slices.Contains([]string{"late", "no_consumer", "no_worker", "paused", "topic_unknown", "dead"}, c.Kind) {
			n = max(n, c.N)
		}
	}
	return n
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

func (a *Alerts) overLines(n *news, say Say) (lines []Line) {
	for _, x := range n.over {
		over := []string{overText(say, x.BeganAt, *x.EndedAt)}
		for _, c := range x.Causes {
			text := say("alerts.title_"+c.Kind, x.Topic+x.Shard)
			if c.Kind == "refused" {
				text = c.Say(say, brief)
			}
			if c.Kind != x.Kind || c.Kind == "refused" {
				over = append(over, text+overText(say, c.BeganAt, c.EndedAt))
			}
		}
		text := strings.Join(over, "; ")
		if left, ok := n.left[x.Key]; ok {
			text += ". " + strings.Join(append([]string{left.Title(say)}, left.causes(say)...), ": ")
		}
		lines = append(lines, Line{x.Subject, link(a.opts.AdminURL, &x), text, nil})
	}
	return lines
}

func overText(say Say, began, ended time.Time) string {
	return say("alerts.line_over", instant(began), instant(ended), age(began, ended))
}

func (a *Alerts) deadLines(list []DeadTopic, say Say) (lines []Line) {
	for _, d := range list {
		to := link(a.opts.AdminURL, &Alert{Kind: "dead", Topic: d.Topic})
		lines = append(lines, Line{Title: deadTitle(d, say), Link: to})
		for _, j := range d.Last {
			lines = append(lines, Line{Text: j.ID + ": " + j.Error})
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
	case strings.HasPrefix(alert.Kind, "schedule_"):
		page = "/schedules?topic=" + url.QueryEscape(alert.Topic)
	case alert.Topic != "":
		page = "/topics/" + url.PathEscape(alert.Topic)
	case alert.Shard != "":
		page = "/shards"
	case alert.Kind == "registry" || alert.Kind == "journal" || alert.Kind == "process":
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
	m.Installation = installation(adminURL, host)
	m.Parts = []Part{{Lines: []Line{{Text: m.Alert.Detail}, {Text: fmt.Sprint(host, ", ", instant(now))}}}}
	m.Link = link(adminURL, &m.Alert)
	return m
}
