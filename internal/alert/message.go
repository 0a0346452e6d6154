package alert

import (
	"cmp"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/wakecall/wakecall/internal/log/printable"
)

// Phase is what a message reports about its alerts.
type Phase string

// Phases of a message.
const (
	Begins Phase = "begins"
	Lasts  Phase = "lasts"
	Ends   Phase = "ends"
	Digest Phase = "digest" // about dead jobs; no alert
	Test   Phase = "test"
)

// Message is a message to people about alerts.
type Message struct {
	Phase Phase
	Alert Alert  // the most severe one
	Title string // one line; empty: the alert's title
	Parts []Part
	Link  string // to the admin; empty if its address is unknown
	At    time.Time

	Installation string
	Level        string  // the worst severity in the language of the message; empty for a test
	Open         bool    // an alert is open
	Alerts       []Alert // all of them: begun, ended, then ongoing

	Thread string // identifies the mail thread of one episode
	First  bool   // the first message of its thread
}

// Part is a section of a message: what began, what ended, what lasts, or which jobs are dead.
type Part struct {
	Title string
	Lines []Line
}

// Line is a row of a table, or a title and a text. The first cell or the title links to a page.
type Line struct {
	Title, Link, Text string
	Cells             []string `json:",omitempty"`
}

// text returns the line without its link.
func (l *Line) text() string {
	filled := slices.DeleteFunc(slices.Clone(l.Cells), func(cell string) bool { return cell == "" })
	return l.Title + l.Text + strings.Join(filled, " | ")
}

// maxSubjectBytes limits the alert's part of a subject, because header lines of a mail have a limited length.
const maxSubjectBytes = 200

// Subject returns the subject of a mail, which is also the first line of the text.
func (m *Message) Subject() string {
	s := printable.Line(cmp.Or(m.Title, m.Alert.Subject))
	return "[" + printable.Line(m.from()) + "] " + printable.Clip(s, maxSubjectBytes)
}

func (m *Message) from() string {
	from := strings.TrimSpace("Wakecall " + m.Installation)
	if m.Level == "" {
		return from
	}
	return from + ": " + m.Level
}

// Text returns the message as plain text.
func (m *Message) Text() string {
	lines := []string{m.Subject()}
	for _, p := range m.parts() {
		if p.Title != "" {
			lines = append(lines, "", p.Title)
		}
		for _, l := range p.Lines {
			lines = append(lines, l.text())
		}
	}
	if m.Link != "" {
		lines = append(lines, "", m.Link)
	}
	return strings.Join(lines, "\n")
}

// parts returns the parts with sanitized lines. Foreign text, such as an error of a server or an endpoint, must not
// look like lines of the message, or contain control sequences for a terminal.
func (m *Message) parts() []Part {
	list := make([]Part, 0, len(m.Parts))
	for _, p := range m.Parts {
		safe := Part{Title: printable.Line(p.Title)}
		for _, line := range p.Lines {
			cells := make([]string, len(line.Cells))
			for i, cell := range line.Cells {
				cells[i] = printable.Line(cell)
			}
			line.Title, line.Text, line.Cells = printable.Line(line.Title), printable.Line(line.Text), cells
			safe.Lines = append(safe.Lines, line)
		}
		list = append(list, safe)
	}
	return list
}

var page = template.Must(template.New("mail").Parse(`<!doctype html><html>
<body style="font-family:system-ui,sans-serif;font-size:15px;color:#1d2530">
<p style="border-left:4px solid {{.Color}};padding:6px 12px;margin:0 0 12px"><strong>{{.Subject}}</strong></p>
{{range .Parts}}{{with .Title}}<p style="margin:12px 0 4px"><strong>{{.}}</strong></p>{{end}}
<table style="border-collapse:collapse">{{range .Lines}}
<tr>{{$to := .Link}}{{range $i, $cell := .Cells}}<td style="border-top:1px solid #dde3ea;padding:4px 8px">
{{- if and $to (eq $i 0)}}<a href="{{$to}}">{{$cell}}</a>{{else}}{{$cell}}{{end}}</td>{{else -}}
<td colspan="4" style="border-top:1px solid #dde3ea;padding:4px 8px;white-space:pre-wrap">
{{- if $to}}<a href="{{$to}}">{{.Title}}</a>{{else}}{{.Title}}{{end}}{{.Text}}</td>{{end}}</tr>
{{end}}</table>{{end}}
{{if .Link}}<p><a href="{{.Link}}">{{.Link}}</a></p>{{end}}
</body></html>`))

// HTML returns the message as an HTML page, with users' text escaped.
func (m *Message) HTML() string {
	color := "#d63939"
	switch {
	case m.Phase == Ends && !m.Open || m.Phase == Test:
		color = "#2fb344"
	case m.Alert.Severity != Critical:
		color = "#f76707"
	}
	var b strings.Builder
	err := page.Execute(&b, map[string]any{
		"Subject": m.Subject(), "Parts": m.parts(), "Link": m.Link, "Color": template.CSS(color),
	})
	if err != nil {
		return ""
	}
	return b.String()
}
