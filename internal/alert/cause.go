package alert

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/observe/forecast"
)

// Severities.
const (
	Critical = "critical"
	Warning  = "warning"
	Info     = "info" // shown, and sent only to recipients that ask for it
)

// rank orders severities; the most severe has the highest rank.
func rank(severity string) int { return slices.Index([]string{Info, Warning, Critical}, severity) }

// Cause is one problem of a topic, a shard or the installation. It consists of a kind and numbers, so that it can be
// shown in every language.
type Cause struct {
	Kind     string    `json:"kind"` // down, failing, …; its text is alerts.cause_KIND
	Severity string    `json:"severity"`
	BeganAt  time.Time `json:"began_at"`          // since when it is so, perhaps before it was found
	FoundAt  time.Time `json:"found_at"`          // when it was first found
	SeenAt   time.Time `json:"last_seen_at"`      // when it was last so, perhaps before it was last found
	EndedAt  time.Time `json:"ended_at,omitzero"` // the last SeenAt
	Flaps    bool      `json:"flaps,omitempty"`   // it came back twice in ten minutes, see Alerts.flaps
	// Recovering: it is not so any more, but the alert stays open until it is sure that it does not come back.
	Recovering bool          `json:"recovering,omitempty"`
	N          int64         `json:"n,omitempty"`     // jobs, attempts or failures
	Of         int64         `json:"of,omitempty"`    // the total that N is a part of
	For        time.Duration `json:"for,omitempty"`   // since when, or how late
	P99        time.Duration `json:"p99,omitempty"`   // of the lateness of calls in the last minute
	Limit      time.Duration `json:"limit,omitempty"` // the limit that is exceeded
	// the endpoint's answer: a status, or a reason of package callback
	Answer string          `json:"answer,omitempty"`
	Text   message.Message `json:"text,omitzero"`  // the error of a server or a check
	Host   string          `json:"host,omitempty"` // the host that found it

	Forecast forecast.Answer `json:"forecast,omitzero"` // of when late jobs are cleared
}

// Say returns the text of a key in a language, with its arguments.
type Say func(key string, args ...any) string

// Say returns the cause in a language. duration formats durations in that language.
func (c Cause) Say(say Say, duration func(time.Duration) string) string {
	if c.Recovering {
		return say("alerts.recovering", say("alerts.kind_"+c.Kind))
	}
	text := say(
		"alerts.cause_"+c.said(),
		c.N,
		c.Of,
		duration(c.For),
		duration(c.P99),
		duration(c.Limit),
		c.answer(say),
		c.Text,
	)
	if c.Forecast.IsZero() {
		return text
	}
	return say("alerts.with_forecast", text, c.Forecast.Say(say, duration))
}

// said returns the kind of the text of the cause, which depends on what is known.
func (c Cause) said() string {
	switch {
	case c.Kind == "topic_failing" && !c.answered(): // the attempts are those of workers, so there is no endpoint
		return "attempts_failing"
	case c.Kind == "breaker" && c.Of > 0: // it closed, but the endpoint goes on failing
		return "breaker_closed"
	case c.Kind == "late" && c.N == 0 && c.For == 0:
		return "late_calls"
	case c.Kind == "late" && c.P99 == 0:
		return "late_jobs"
	}
	return c.Kind
}

// answers are the reasons that have a text alerts.answer_REASON.
var answers = []string{"timeout", "refused", "dns", "tls", "reset", "protocol", "blocked", "retry_if"}

// answered reports whether the endpoint's answer is known.
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

// Finding is a cause found in this round.
type Finding struct {
	Topic string `json:"topic,omitempty"`
	Shard string `json:"shard,omitempty"`
	Cause
}

// Key returns the subject of a finding. All findings with the same key form one alert.
func (f *Finding) Key() string {
	switch {
	case f.Topic != "":
		return "topic/" + f.Topic
	case f.Shard != "":
		return "shard/" + f.Shard
	}
	return f.Kind
}

// id identifies a finding.
func (f *Finding) id() string { return f.Kind + "/" + f.Shard + "/" + f.Topic }

// worstFirst orders causes by severity.
func worstFirst(a, b Cause) int {
	return cmp.Or(rank(b.Severity)-rank(a.Severity), a.BeganAt.Compare(b.BeganAt), cmp.Compare(a.Kind, b.Kind))
}

// lasts reports whether the cause has not ended.
func (c Cause) lasts() bool { return c.EndedAt.IsZero() }

// Current returns the causes that last, the most severe first; all causes of an alert that has ended.
func (a *Alert) Current() (list []Cause) {
	for _, c := range a.Causes {
		if a.EndedAt != nil || c.lasts() {
			list = append(list, c)
		}
	}
	return list
}

// WorstFirst orders alerts: urgent ones first, then by severity, then oldest first.
func WorstFirst(a, b Alert) int {
	return cmp.Or(b.rank()-a.rank(), a.BeganAt.Compare(b.BeganAt), cmp.Compare(a.Key, b.Key))
}

// rank orders alerts: urgent ones are above all others, whose severity decides.
func (a *Alert) rank() int {
	if a.urgent() {
		return rank(Critical) + 1
	}
	return rank(a.Severity)
}

// Title returns a one-line title of the alert in a language.
func (a *Alert) Title(say Say) string {
	switch {
	case len(a.Causes) == 0:
		return a.Subject // a test message
	case a.EndedAt == nil && a.Causes[0].Recovering:
		return say("alerts.title_recovering", cmp.Or(a.Topic+a.Shard, say("alerts.kind_"+a.Kind)))
	}
	return a.was(say)
}

// was returns the title while the alert is not recovering.
func (a *Alert) was(say Say) string { return say("alerts.title_"+a.Kind, a.Topic+a.Shard) }

// Details returns the causes in a language, the most severe first.
func (a *Alert) Details(say Say, duration func(time.Duration) string) []string {
	if len(a.Causes) == 0 && a.Detail != "" {
		return []string{a.Detail}
	}
	var list []string
	for _, c := range a.Current() {
		list = append(list, c.Say(say, duration))
	}
	return list
}

// Has reports whether the alert has a cause of a kind.
func (a *Alert) Has(kind string) bool {
	return a.Kind == kind || slices.ContainsFunc(a.Current(), func(c Cause) bool { return c.Kind == kind })
}

// since returns when the cause began that gives the alert its title.
func (a *Alert) since() time.Time {
	if len(a.Causes) == 0 {
		return a.BeganAt
	}
	return a.Causes[0].BeganAt
}

// worseAt returns when the alert was found to have its current severity. From then on, a cause that joined it is news
// for receivers that were not notified of it before. Causes are in the order of worstFirst.
func (a *Alert) worseAt() time.Time {
	if len(a.Causes) == 0 {
		return a.BeganAt
	}
	return a.Causes[0].FoundAt
}

// urgent reports whether people are notified immediately: the alert is critical and affects the whole installation.
func (a *Alert) urgent() bool { return a.Severity == Critical && a.Topic == "" }

// flaps reports whether the alert is open only because its causes come and go.
func (a *Alert) flaps() bool {
	return !slices.ContainsFunc(a.Current(), func(c Cause) bool { return !c.Flaps && c.Severity != Info })
}

// brief formats a duration for messages.
func brief(d time.Duration) string {
	if d >= 10*time.Second {
		d = d.Round(time.Second)
	}
	return printable.ShortDuration(d.Round(time.Millisecond))
}
