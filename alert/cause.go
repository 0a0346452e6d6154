package alert

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/wakecall/wakecall/printable"
)

// Severities.
const (
	Critical = "critical"
	Warning  = "warning"
	Info     = "info" // shown, and sent only to those who ask for it
)

// rank orders severities, the worst highest.
func rank(severity string) int { return slices.Index([]string{Info, Warning, Critical}, severity) }

// Cause is one thing that is wrong with a topic, a shard or the installation. It is told by its kind and its numbers,
// so that every reader gets it in his language.
type Cause struct {
	Kind     string        `json:"kind"` // down, failing, …; the text alerts.cause_KIND says it
	Severity string        `json:"severity"`
	BeganAt  time.Time     `json:"began_at"`
	N        int64         `json:"n,omitempty"`      // jobs, attempts or failures
	Of       int64         `json:"of,omitempty"`     // of so many
	For      time.Duration `json:"for,omitempty"`    // since when, or how late
	P99      time.Duration `json:"p99,omitempty"`    // of the lateness of the last minute's calls
	Limit    time.Duration `json:"limit,omitempty"`  // that is exceeded
	Answer   string        `json:"answer,omitempty"` // of the endpoint: a status, or a reason of package callback
	Text     string        `json:"text,omitempty"`   // of a server, or of a check
}

// Say returns the text of a key in a language, with its arguments.
type Say func(key string, args ...any) string

// Say is the cause in a language. duration writes durations in it.
func (c Cause) Say(say Say, duration func(time.Duration) string) string {
	kind := c.Kind
	if kind == "topic_failing" && !c.answered() { // the attempts of workers, who are no endpoint
		kind = "attempts_failing"
	}
	return say(
		"alerts.cause_"+kind,
		c.N,
		c.Of,
		duration(c.For),
		duration(c.P99),
		duration(c.Limit),
		c.answer(say),
		c.Text,
	)
}

// answers are those that have the text alerts.answer_REASON.
var answers = []string{"timeout", "refused", "dns", "tls", "reset", "protocol", "blocked", "retry_if"}

// answered reports whether it is known what the endpoint does.
func (c Cause) answered() bool {
	_, err := strconv.Atoi(c.Answer)
	return err == nil || slices.Contains(answers, c.Answer)
}

func (c Cause) answer(say Say) string {
	switch {
	case !c.answered():
		return say("alerts.answer_unknown")
	case slices.Contains(answers, c.Answer):
		return say("alerts.answer_" + c.Answer)
	}
	return say("alerts.answer_status", c.Answer)
}

// Finding is a cause that is found now.
type Finding struct {
	Topic string
	Shard string
	Cause
}

// Key is what it is about: all findings of a key are one alert.
func (f *Finding) Key() string {
	switch {
	case f.Topic != "":
		return "topic/" + f.Topic
	case f.Shard != "":
		return "shard/" + f.Shard
	}
	return f.Kind
}

// id tells findings apart.
func (f *Finding) id() string { return f.Kind + "/" + f.Shard + "/" + f.Topic }

// worstFirst orders causes.
func worstFirst(a, b Cause) int {
	return cmp.Or(rank(b.Severity)-rank(a.Severity), a.BeganAt.Compare(b.BeganAt), cmp.Compare(a.Kind, b.Kind))
}

// WorstFirst orders alerts: what is urgent, then by severity, then the oldest first.
func WorstFirst(a, b Alert) int {
	switch {
	case a.urgent() && !b.urgent():
		return -1
	case b.urgent() && !a.urgent():
		return 1
	}
	return cmp.Or(rank(b.Severity)-rank(a.Severity), a.BeganAt.Compare(b.BeganAt), cmp.Compare(a.Key, b.Key))
}

// Title is what the alert is, in one line of a language.
func (a *Alert) Title(say Say) string {
	if len(a.Causes) == 0 {
		return a.Subject // of an earlier version, or a test message
	}
	return say("alerts.title_"+a.Kind, a.Topic+a.Shard)
}

// Details are its causes in a language, the worst first.
func (a *Alert) Details(say Say, duration func(time.Duration) string) []string {
	if len(a.Causes) == 0 && a.Detail != "" {
		return []string{a.Detail}
	}
	var list []string
	for _, c := range a.Causes {
		list = append(list, c.Say(say, duration))
	}
	return list
}

// Has reports whether the alert has a cause of a kind.
func (a *Alert) Has(kind string) bool {
	return a.Kind == kind || slices.ContainsFunc(a.Causes, func(c Cause) bool { return c.Kind == kind })
}

// urgent reports whether people are told at once: it is critical and about the whole installation.
func (a *Alert) urgent() bool { return a.Severity == Critical && a.Topic == "" }

// brief writes a duration in messages.
func brief(d time.Duration) string {
	if d >= 10*time.Second {
		d = d.Round(time.Second)
	}
	return printable.ShortDuration(d.Round(time.Millisecond))
}
