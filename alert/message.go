package alert

import (
	"fmt"
	"hash/fnv"
	"html/template"
	"strings"
	"time"
	"unicode"
)

// Phase is what a message says about its alert.
type Phase string

// The phases.
const (
	Begins Phase = "begins"
	Lasts  Phase = "lasts"
	Ends   Phase = "ends"
	Digest Phase = "digest" // of dead jobs; no alert
	Test   Phase = "test"
)

// Severities.
const (
	Critical = "critical"
	Warning  = "warning"
)

// Message is what people receive about an alert.
type Message struct {
	Phase Phase
	Alert Alert
	Link  string // to the admin; empty if its address is not known
	At    time.Time
	Lines []string // of a digest
}

// maxSubjectBytes limits the alert's part of a subject, because lines of a mail's header are limited.
const maxSubjectBytes = 200

// oneLine makes a text of others safe, such as the error of a server or an endpoint: its lines must not look like
// lines of the message, and it must not contain control sequences for a terminal.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r >= '\u2028' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069' {
			return ' '
		}
		return r
	}, s)
}

// Subject is the subject of a mail, and the first line of the text.
func (m *Message) Subject() string {
	s := oneLine(m.Alert.Subject)
	if len(s) > maxSubjectBytes {
		s = strings.ToValidUTF8(s[:maxSubjectBytes], "") + "…"
	}
	switch m.Phase {
	case Lasts:
		s = "still: " + s
	case Ends:
		s = "is over: " + s
	}
	return "[Wakecall] " + s
}

// Text is the message in plain text.
func (m *Message) Text() string {
	lines := append([]string{m.Subject()}, m.facts()...)
	lines = append(lines, m.digest()...)
	if m.Link != "" {
		lines = append(lines, m.Link)
	}
	return strings.Join(lines, "\n")
}

func (m *Message) digest() []string {
	lines := make([]string, len(m.Lines))
	for i, line := range m.Lines {
		lines[i] = oneLine(line)
	}
	return lines
}

func (m *Message) facts() []string {
	var facts []string
	if m.Alert.Detail != "" {
		facts = append(facts, oneLine(m.Alert.Detail))
	}
	began, lasted := instant(m.Alert.BeganAt), m.At.Sub(m.Alert.BeganAt).Round(time.Second)
	switch m.Phase {
	case Begins:
		facts = append(facts, "since "+began+", seen from "+m.Alert.Host)
	case Lasts:
		facts = append(facts, fmt.Sprintf("since %s (%s), seen from %s", began, lasted, m.Alert.Host))
	case Ends:
		facts = append(facts, fmt.Sprintf("it began %s and lasted %s", began, lasted))
	}
	return facts
}

func instant(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

var page = template.Must(template.New("mail").Parse(`<!doctype html><html>
<body style="font-family:system-ui,sans-serif;font-size:15px;color:#1d2530">
<p style="border-left:4px solid {{.Colour}};padding:6px 12px;margin:0 0 12px"><strong>{{.Subject}}</strong></p>
{{range .Facts}}<p style="margin:0 0 8px;white-space:pre-wrap">{{.}}</p>{{end}}
{{if .Lines}}<table style="border-collapse:collapse">{{range .Lines}}
<tr><td style="border-top:1px solid #dde3ea;padding:4px 8px;font-family:monospace;font-size:13px">{{.}}</td></tr>
{{end}}</table>{{end}}
{{if .Link}}<p><a href="{{.Link}}">{{.Link}}</a></p>{{end}}
</body></html>`))

// HTML is the message as a page; texts of users are escaped.
func (m *Message) HTML() string {
	colour := "#d63939"
	switch {
	case m.Phase == Ends || m.Phase == Test:
		colour = "#2fb344"
	case m.Alert.Severity == Warning:
		colour = "#f76707"
	}
	var b strings.Builder
	err := page.Execute(&b, map[string]any{
		"Subject": m.Subject(), "Facts": m.facts(), "Lines": m.digest(), "Link": m.Link, "Colour": template.CSS(colour),
	})
	if err != nil {
		return ""
	}
	return b.String()
}

// thread is the Message-ID of an alert's first mail. The others refer to it, so that mail programs show them
// together.
func (m *Message) thread() string {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, m.Alert.Key, m.Alert.BeganAt.UnixMicro())
	return fmt.Sprintf("<alert-%x@wakecall>", h.Sum64())
}
