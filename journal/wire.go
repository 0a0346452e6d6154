package journal

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// lineStart begins every line and occurs nowhere else in one.
const lineStart = `{"ts":"`

const timeForm = "2006-01-02T15:04:05.000Z"

// requestWire is a RequestLine as it is in a file. ts has to be the first member.
type requestWire struct {
	TS          timestamp   `json:"ts"`
	Op          Op          `json:"op,omitzero"`
	Topic       string      `json:"topic,omitzero"`
	ID          string      `json:"id,omitzero"`
	Shard       string      `json:"shard,omitzero"`
	Revision    int64       `json:"rev,omitzero"`
	DueAt       millis      `json:"due_at,omitzero"`
	CreatedAt   millis      `json:"created_at,omitzero"`
	ChangedAt   millis      `json:"changed_at,omitzero"`
	Priority    string      `json:"priority,omitzero"`
	TTR         float64     `json:"ttr,omitzero"` // seconds
	MaxAttempts int         `json:"max_attempts,omitzero"`
	ContentType string      `json:"content_type,omitzero"`
	ExpiresAt   millis      `json:"expires_at,omitzero"`
	TTL         float64     `json:"ttl,omitzero"` // seconds
	Headers     pairs       `json:"headers,omitzero"`
	Retry       []float64   `json:"retry,omitzero"` // seconds
	Count       int         `json:"count,omitzero"`
	OnDuplicate string      `json:"on_duplicate,omitzero"`
	Delay       float64     `json:"delay,omitzero"` // seconds
	Via         string      `json:"via,omitzero"`
	Body        text        `json:"body,omitzero"`
	Base64      base64Texts `json:",embed"`
}

// AppendRequest appends a line as it is in a file.
func AppendRequest(b []byte, l *RequestLine) []byte { return l.append(b, l.TS) }

func (l *RequestLine) append(b []byte, now time.Time) []byte {
	var raw base64Texts
	w := requestWire{
		TS: stampOf(l.TS, now), Op: l.Op, Topic: raw.move("topic", l.Topic), ID: raw.move("id", l.ID),
		Shard: raw.move("shard", l.Shard), Revision: l.Revision, DueAt: millis(l.DueAt), CreatedAt: millis(l.CreatedAt),
		ChangedAt: millis(l.ChangedAt), Priority: l.Priority, TTR: l.TTR.Seconds(), MaxAttempts: l.MaxAttempts,
		ContentType: raw.move("content_type", l.ContentType), Count: l.Count,
		OnDuplicate: l.OnDuplicate, Delay: l.Delay.Seconds(), Via: l.Via, Body: l.Body,
		ExpiresAt: millis(l.ExpiresAt), TTL: l.TTL.Seconds(),
		Headers: pairsOf(l.Headers),
	}
	for _, d := range l.Retry {
		w.Retry = append(w.Retry, d.Seconds())
	}
	if !utf8.Valid(l.Body) {
		w.Body = nil
		raw.add("body", l.Body)
	}
	w.Base64 = raw
	return appendLine(b, &w)
}

// UnmarshalJSON reads a line of a request file.
func (l *RequestLine) UnmarshalJSON(data []byte) error {
	var w requestWire
	if err := unmarshalLine(data, &w, &w.TS); err != nil {
		return err
	}
	*l = RequestLine{
		TS: time.Time(w.TS), Op: w.Op, Topic: w.Base64.or("topic", w.Topic), ID: w.Base64.or("id", w.ID),
		Shard: w.Base64.or("shard", w.Shard), Revision: w.Revision, DueAt: time.Time(w.DueAt),
		CreatedAt: time.Time(w.CreatedAt), ChangedAt: time.Time(w.ChangedAt), Priority: w.Priority, Via: w.Via,
		TTR: toDuration(w.TTR, time.Second), MaxAttempts: w.MaxAttempts,
		ContentType: w.Base64.or("content_type", w.ContentType), Count: w.Count, OnDuplicate: w.OnDuplicate,
		Delay: toDuration(w.Delay, time.Second), Body: w.Body,
	}
	l.ExpiresAt, l.TTL, l.Headers = time.Time(w.ExpiresAt), toDuration(w.TTL, time.Second), w.Headers.texts()
	for _, seconds := range w.Retry {
		l.Retry = append(l.Retry, toDuration(seconds, time.Second))
	}
	if body, ok := w.Base64.get("body"); ok {
		l.Body = body
	}
	return nil
}

// attemptWire is an AttemptLine as it is in a file.
type attemptWire struct {
	TS        timestamp   `json:"ts"`
	Topic     string      `json:"topic,omitzero"`
	ID        string      `json:"id,omitzero"`
	CreatedAt millis      `json:"created_at,omitzero"`
	N         int         `json:"n,omitzero"`
	StartedAt millis      `json:"started_at,omitzero"`
	TookMS    float64     `json:"took_ms,omitzero"`
	Status    int         `json:"status,omitzero"`
	Outcome   Outcome     `json:"outcome,omitzero"`
	Reason    string      `json:"reason,omitzero"`
	Error     string      `json:"error,omitzero"`
	Shard     string      `json:"shard,omitzero"`
	Revision  int64       `json:"rev,omitzero"`
	Process   string      `json:"process,omitzero"`
	Result    string      `json:"result,omitzero"`
	Base64    base64Texts `json:",embed"`
}

// AppendAttempt appends a line as it is in a file.
func AppendAttempt(b []byte, l *AttemptLine) []byte { return l.append(b, l.TS, l.Process) }

func (l *AttemptLine) append(b []byte, now time.Time, process string) []byte {
	var raw base64Texts
	w := attemptWire{
		TS: stampOf(l.TS, now), Topic: raw.move("topic", l.Topic), ID: raw.move("id", l.ID),
		CreatedAt: millis(l.CreatedAt), N: l.N, StartedAt: millis(l.StartedAt),
		TookMS: float64(l.Took) / float64(time.Millisecond), Status: l.Status, Outcome: l.Outcome,
		Reason: raw.move("reason", l.Reason), Error: raw.move("error", l.Error), Shard: raw.move("shard", l.Shard),
		Revision: l.Revision, Process: raw.move("process", cmp.Or(l.Process, process)), Result: raw.move("result", l.Result),
	}
	w.Base64 = raw
	return appendLine(b, &w)
}

// UnmarshalJSON reads a line of a notify file.
func (l *AttemptLine) UnmarshalJSON(data []byte) error {
	var w attemptWire
	if err := unmarshalLine(data, &w, &w.TS); err != nil {
		return err
	}
	*l = AttemptLine{
		TS: time.Time(w.TS), Topic: w.Base64.or("topic", w.Topic), ID: w.Base64.or("id", w.ID),
		CreatedAt: time.Time(w.CreatedAt), N: w.N, StartedAt: time.Time(w.StartedAt),
		Took: toDuration(w.TookMS, time.Millisecond), Status: w.Status, Outcome: w.Outcome,
		Reason: w.Base64.or("reason", w.Reason), Error: w.Base64.or("error", w.Error), Shard: w.Base64.or("shard", w.Shard),
		Revision: w.Revision, Process: w.Base64.or("process", w.Process), Result: w.Base64.or("result", w.Result),
	}
	return nil
}

// errorWire is an ErrorLine as it is in a file.
type errorWire struct {
	TS      timestamp   `json:"ts"`
	Process string      `json:"process,omitzero"`
	Where   string      `json:"where,omitzero"`
	Error   string      `json:"error,omitzero"`
	Context string      `json:"context,omitzero"`
	Base64  base64Texts `json:",embed"`
}

func (l *ErrorLine) append(b []byte, now time.Time, process string) []byte {
	var raw base64Texts
	w := errorWire{
		TS: stampOf(l.TS, now), Process: raw.move("process", cmp.Or(l.Process, process)), Where: raw.move("where", l.Where),
		Error: raw.move("error", l.Error), Context: raw.move("context", l.Context),
	}
	w.Base64 = raw
	return appendLine(b, &w)
}

// UnmarshalJSON reads a line of an error file.
func (l *ErrorLine) UnmarshalJSON(data []byte) error {
	var w errorWire
	if err := unmarshalLine(data, &w, &w.TS); err != nil {
		return err
	}
	*l = ErrorLine{
		TS: time.Time(w.TS), Process: w.Base64.or("process", w.Process), Where: w.Base64.or("where", w.Where),
		Error: w.Base64.or("error", w.Error), Context: w.Base64.or("context", w.Context),
	}
	return nil
}

// lenient reads what any version has written.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// writing escapes the line separators outside ASCII, at which some readers would split a line.
var writing = json.JoinOptions(lenient, jsontext.EscapeForJS(true))

type appender []byte

func (a *appender) Write(p []byte) (int, error) {
	*a = append(*a, p...)
	return len(p), nil
}

func appendLine(b []byte, wire any) []byte {
	start := len(b)
	if err := json.MarshalWrite((*appender)(&b), wire, writing); err != nil {
		panic(fmt.Sprintf("encoding a journal line: %v", err)) // no value of these types fails
	}
	if line := b[start:]; bytes.IndexByte(line, 0x7f) >= 0 || bytes.IndexByte(line, 0xc2) >= 0 {
		b = append(b[:start], escapeControls(line)...)
	}
	return append(b, '\n')
}

// escapeControls escapes the control characters that JSON allows in strings, though a terminal would obey them.
func escapeControls(line []byte) []byte {
	escaped := make([]byte, 0, len(line)+len(line)/8)
	for len(line) > 0 {
		r, size := utf8.DecodeRune(line)
		if r >= 0x7f && r <= 0x9f {
			escaped = fmt.Appendf(escaped, `\u%04x`, r)
		} else {
			escaped = append(escaped, line[:size]...)
		}
		line = line[size:]
	}
	return escaped
}

var errNoTime = errors.New("the line has no ts")

func unmarshalLine(data []byte, wire any, ts *timestamp) error {
	if err := json.Unmarshal(data, wire, lenient); err != nil {
		return err
	}
	if time.Time(*ts).IsZero() {
		return errNoTime
	}
	return nil
}

// timestamp is a time in timeForm.
type timestamp time.Time

func stampOf(t, now time.Time) timestamp {
	if t.IsZero() {
		return timestamp(now)
	}
	return timestamp(t)
}

// AppendText writes milliseconds.
func (t *timestamp) AppendText(b []byte) ([]byte, error) {
	// AppendFormat is three times as fast with this layout as with timeForm.
	b = time.Time(*t).UTC().AppendFormat(b, time.RFC3339)
	ms := time.Time(*t).Nanosecond() / int(time.Millisecond)
	return append(b[:len(b)-len("Z")], '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z'), nil
}

// UnmarshalText reads any RFC 3339.
func (t *timestamp) UnmarshalText(b []byte) error {
	at, err := time.Parse(time.RFC3339Nano, string(b))
	*t = timestamp(at)
	return err
}

// millis is a time in Unix milliseconds.
type millis time.Time

// IsZero is for omitzero.
func (m *millis) IsZero() bool { return time.Time(*m).IsZero() }

// MarshalJSONTo writes a number.
func (m *millis) MarshalJSONTo(to *jsontext.Encoder) error {
	return to.WriteToken(jsontext.Int(time.Time(*m).UnixMilli()))
}

// UnmarshalJSONFrom reads a number.
func (m *millis) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	var ms *int64
	if err := json.UnmarshalDecode(from, &ms); err != nil || ms == nil {
		return err
	}
	*m = millis(time.UnixMilli(*ms).UTC())
	return nil
}

// text is a body that is UTF-8, as a JSON string.
type text []byte

// AppendText has the encoder quote the bytes.
func (t text) AppendText(b []byte) ([]byte, error) { return append(b, t...), nil }

// UnmarshalText keeps an empty body apart from none.
func (t *text) UnmarshalText(b []byte) error {
	*t = append([]byte{}, b...)
	return nil
}

// pairs are names and their texts: an object could have {"ts":" in it, with which only lines begin.
type pairs [][2]string

func pairsOf(texts map[string]string) (p pairs) {
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		p = append(p, [2]string{name, texts[name]})
	}
	return p
}

func (p pairs) texts() map[string]string {
	if len(p) == 0 {
		return nil
	}
	texts := make(map[string]string, len(p))
	for _, pair := range p {
		texts[pair[0]] = pair[1]
	}
	return texts
}

// suffix64 is what the name of a text that is not UTF-8 ends with: such a text is written in base64.
const suffix64 = "_b64"

// base64Texts is the texts of a line that are not UTF-8, by name, and what later versions may add.
type base64Texts map[string]jsontext.Value

func (m *base64Texts) add(name string, data []byte) {
	if *m == nil {
		*m = base64Texts{}
	}
	(*m)[name+suffix64], _ = json.Marshal(data) // bytes always encode
}

// move returns a text that is UTF-8; any other is added and replaced by nothing.
func (m *base64Texts) move(name, s string) string {
	if utf8.ValidString(s) {
		return s
	}
	m.add(name, []byte(s))
	return ""
}

func (m base64Texts) get(name string) (data []byte, ok bool) {
	v, ok := m[name+suffix64]
	return data, ok && json.Unmarshal(v, &data) == nil
}

// or returns the text of a name that is not UTF-8, or else s.
func (m base64Texts) or(name, s string) string {
	if data, ok := m.get(name); ok {
		return string(data)
	}
	return s
}

// toDuration rounds to nanoseconds, which undoes the detour through decimal fractions.
func toDuration(f float64, unit time.Duration) time.Duration {
	return time.Duration(math.Round(f * float64(unit)))
}
