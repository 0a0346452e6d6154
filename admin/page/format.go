package page

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/wakecall/wakecall/internal/alert"
	"github.com/wakecall/wakecall/internal/bulk"
	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/observe/forecast"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/web"
)

// funcs returns the templates' functions in a language.
func (p *Pages) funcs(language string) template.FuncMap {
	t := func(key string, args ...any) string { return p.Texts.texts[language].T(key, args...) }
	words := func(d time.Duration) string { return inWords(t, Duration(d)) }
	return template.FuncMap{
		"t": t, "has": func(key string) bool { return p.Texts.texts[language].Has(key) },
		"path": p.Path, "asset": p.asset, "icon": p.icon, "languages": func() []web.Language { return web.Languages },
		"count": func(known bool, n any) string {
			if !known {
				return "–"
			}
			return Num(n)
		},
		"num": Num, "dec": dec, "percent": percent, "bytes": ByteSize, "json": prettyJSON,
		"dur": func(v any) string { return inWords(t, Duration(v)) },
		"ms":  func(v float64) string { return inWords(t, milliseconds(v)) },
		"ago": func(at any) template.HTML { return p.ago(language, at) },
		"span": func(text string) string {
			d, _ := time.ParseDuration(text)
			return inWords(t, Duration(d))
		},
		"asof": func(at time.Time) template.HTML {
			return timeElement(at, at.UTC().Format("15:04"), "clock", p.relative(language, at), true)
		},
		"instant": func(at any) template.HTML { return p.instant(language, at) }, "clock": clock,
		"dict": dict, "setting": setting, "list": func(v ...any) []any { return v },
		"join": func(sep string, v []string) string { return strings.Join(v, sep) },
		"str":  func(v any) string { return fmt.Sprint(v) }, "lower": strings.ToLower, "breaks": breaks,
		"causes":     func(a alert.Alert) []cause { return causes(&a, t, words) },
		"readable":   Unescaped,
		"text":       func(key string, args []any) string { return p.Texts.say(language, message.New(key, args...)) },
		"say":        func(m message.Message) string { return p.Texts.say(language, m) },
		"title":      func(a alert.Alert) string { return a.Title(t) },
		"titles":     func(g *alert.Group) string { return g.Title(t) },
		"detail":     func(g *alert.Group) string { return g.Detail(t, words) },
		"color":      func(a alert.Alert) string { return a.Color(p.Now()) },
		"details":    func(a alert.Alert) []string { return a.Details(t, words) },
		"backlog":    func(a forecast.Answer) string { return a.Say(t, words) },
		"last_error": func(j store.Job) string { return bulk.LastError(&j) },
		"add":        func(x, y int) int { return x + y },
	}
}

// breaks lets a URL break after the slashes of its path, and before its query and each of its parameters.
func breaks(url string) template.HTML {
	places := strings.NewReplacer("://", "://", "/", "/<wbr>", "?", "<wbr>?", "&amp;", "<wbr>&amp;")
	return template.HTML(places.Replace(template.HTMLEscapeString(url)))
}

// cause is a cause of an alert with its text.
type cause struct {
	alert.Cause
	Said string
}

// causes returns the causes of an alert in a language, also those that have ended while it is open.
func causes(a *alert.Alert, say alert.Say, words func(time.Duration) string) (list []cause) {
	for _, c := range a.Causes {
		list = append(list, cause{c, c.Say(say, words)})
	}
	return list
}

// dict builds a map from pairs, to pass several values to a template.
func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, errors.New("dict needs pairs")
	}
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		m[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return m, nil
}

// setting builds the map of a form's field whose name is that of the API, with its texts in.f_NAME and in.h_NAME. More
// pairs are those of dict, and replace these.
func setting(form, errors map[string]string, in, name string, pairs ...any) (map[string]any, error) {
	return dict(append([]any{"Name", name, "Label", in + ".f_" + name, "Help", in + ".h_" + name, "Value", form[name],
		"Error", errors[name]}, pairs...)...)
}

// Num formats a whole number with grouped digits: 1,234,567.
func Num(v any) string {
	s := fmt.Sprint(v)
	sign := ""
	if rest, ok := strings.CutPrefix(s, "-"); ok {
		sign, s = "-", rest
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// dec formats a number with a useful number of decimals.
func dec(v float64) string {
	switch size := math.Abs(v); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "–"
	case size >= 100 || v == math.Trunc(v):
		return Num(int64(math.Round(v)))
	case size >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// percent formats a share of 1. A share just below 1 is not rounded to 100%.
func percent(share float64) string {
	switch {
	case math.IsNaN(share):
		return "–"
	case share >= 1 || share <= 0:
		return strconv.FormatFloat(share*100, 'f', 0, 64) + "%"
	case share > 0.9995:
		return "99.9%"
	}
	return strconv.FormatFloat(share*100, 'f', 1, 64) + "%"
}

func ByteSize(v any) string {
	n, err := strconv.ParseInt(fmt.Sprint(v), 10, 64)
	if err != nil {
		return "–"
	}
	return printable.Bytes(n)
}

// Duration formats a span with its two greatest units: 250ms, 12s, 3m 20s, 2h 5m, 3d 4h. It accepts a time.Duration or
// a type based on it.
func Duration(v any) string {
	d, ok := v.(time.Duration)
	if s, is := v.(interface{ Std() time.Duration }); is {
		d, ok = s.Std(), true
	}
	switch {
	case !ok:
		return fmt.Sprint(v)
	case d < 0:
		return "-" + Duration(-d)
	case d == 0:
		return "0s"
	case d < time.Second:
		return milliseconds(float64(d) / float64(time.Millisecond))
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'g', 2, 64) + "s"
	}
	s := int64(d.Round(time.Second) / time.Second)
	units := []struct {
		name string
		size int64
	}{{"d", 86400}, {"h", 3600}, {"m", 60}, {"s", 1}}
	for i, u := range units {
		if s < u.size {
			continue
		}
		text := fmt.Sprint(s/u.size, u.name)
		if i+1 < len(units) && s%u.size/units[i+1].size > 0 {
			text += fmt.Sprint(" ", s%u.size/units[i+1].size, units[i+1].name)
		}
		return strings.ReplaceAll(text, " "+u.name, u.name)
	}
	return "0s"
}

// inWords translates the units of a duration.
func inWords(t func(string, ...any) string, text string) string {
	parts := strings.Fields(text)
	for i, part := range parts {
		number := strings.TrimRight(part, "dhms")
		if number == "" || number == part {
			return text
		}
		parts[i] = t("common.unit_"+part[len(number):], number)
	}
	return strings.Join(parts, " ")
}

// milliseconds formats a number of milliseconds.
func milliseconds(v float64) string {
	switch {
	case v >= 10_000:
		return Duration(time.Duration(v * float64(time.Millisecond)))
	case v >= 1000:
		return strconv.FormatFloat(v/1000, 'f', 1, 64) + "s"
	case v >= 10 || v == 0:
		return strconv.FormatFloat(v, 'f', 0, 64) + "ms"
	}
	return strconv.FormatFloat(v, 'f', 1, 64) + "ms"
}

// toTime converts a time.Time, a *time.Time or Unix milliseconds.
func toTime(v any) time.Time {
	switch x := v.(type) {
	case time.Time:
		return x
	case *time.Time:
		if x != nil {
			return *x
		}
	case int64:
		if x > 0 {
			return time.UnixMilli(x)
		}
	}
	return time.Time{}
}

// instant formats a time with the distance from now. Times are in UTC until the page's script converts them to the
// user's zone.
func (p *Pages) instant(language string, v any) template.HTML {
	at := toTime(v)
	if at.IsZero() {
		return "–"
	}
	return timeElement(at, at.UTC().Format(time.DateTime), "full", p.relative(language, at), true)
}

// clock formats the hour and minute of a time.
func clock(at time.Time) template.HTML {
	return timeElement(at, at.UTC().Format("15:04"), "clock", "", true)
}

// ago formats the distance of a time from now, with the time.
func (p *Pages) ago(language string, v any) template.HTML {
	at := toTime(v)
	if at.IsZero() {
		return "–"
	}
	return timeElement(at, at.UTC().Format(time.DateTime), "short", p.relative(language, at), false)
}

func (p *Pages) relative(language string, at time.Time) string {
	texts := p.Texts.texts[language]
	d := p.Now().Sub(at)
	switch {
	case d.Abs() < time.Second:
		return texts.T("common.now")
	case d < 0:
		return texts.T("common.ahead", inWords(texts.T, Duration((-d).Round(time.Second))))
	}
	return texts.T("common.ago", inWords(texts.T, Duration(d.Round(time.Second))))
}

// timeElement formats a time as absolute and relative, the more important form first.
func timeElement(at time.Time, absolute, form, relative string, absoluteFirst bool) template.HTML {
	begin := `<time class="wk-time" datetime="` + at.UTC().Format(time.RFC3339Nano) + `">`
	own := `<span data-at="` + form + `">` + absolute + `</span>`
	if relative == "" {
		return template.HTML(begin + own + `</time>`)
	}
	relative = template.HTMLEscapeString(relative)
	if absoluteFirst {
		return template.HTML(begin + own + ` <small class="text-secondary">` + relative + `</small></time>`)
	}
	return template.HTML(begin + relative + ` <small class="text-secondary">` + own + `</small></time>`)
}

// prettyJSON indents JSON and returns other text unchanged.
func prettyJSON(v any) string {
	var raw []byte
	switch x := v.(type) {
	case json.RawMessage:
		raw = x
	case []byte:
		raw = x
	case string:
		raw = []byte(x)
	default:
		b, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return fmt.Sprint(v)
		}
		return string(b)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return string(raw)
	}
	return b.String()
}
