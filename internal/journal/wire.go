package journal

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/wakecall/wakecall/internal/journal/member"
)

// lineStart begins every line and occurs nowhere else.
const lineStart = `{"ts":"`

const timeForm = "2006-01-02T15:04:05.000Z"

// requestWire is the JSON of a RequestLine.
type requestWire struct {
	TS          timestamp   `json:"ts"`
	Op          Op          `json:"op"`
	Topic       string      `json:"topic"`
	ID          string      `json:"id"`
	Shard       string      `json:"shard"`
	Revision    int64       `json:"rev"`
	DueAt       millis      `json:"due_at"`
	CreatedAt   millis      `json:"created_at"`
	ChangedAt   millis      `json:"changed_at"`
	Priority    string      `json:"priority"`
	TTR         float64     `json:"ttr"` // seconds
	MaxAttempts int         `json:"max_attempts"`
	ContentType string      `json:"content_type"`
	ExpiresAt   millis      `json:"expires_at"`
	TTL         float64     `json:"ttl"` // seconds
	Headers     pairs       `json:"headers"`
	Retry       []float64   `json:"retry"` // seconds
	Count       int         `json:"count"`
	Delay       float64     `json:"delay"` // seconds
	Via         string      `json:"via"`
	Body        text        `json:"body"`
	Base64      base64Texts `json:",embed"`
}

func (l *RequestLine) append(b []byte, now time.Time) []byte {
	start := len(b)
	b = beginLine(b, l.TS, now)
	b = appendText(b, "op", l.Op)
	b = appendText(b, "topic", l.Topic)
	b = appendText(b, "id", l.ID)
	b = appendText(b, "shard", l.Shard)
	b = appendInt(b, "rev", l.Revision)
	b = appendMillis(b, "due_at", l.DueAt)
	b = appendMillis(b, "created_at", l.CreatedAt)
	b = appendMillis(b, "changed_at", l.ChangedAt)
	b = appendText(b, "priority", l.Priority)
	b = appendDuration(b, "ttr", l.TTR, time.Second)
	b = appendInt(b, "max_attempts", l.MaxAttempts)
	b = appendText(b, "content_type", l.ContentType)
	b = appendMillis(b, "expires_at", l.ExpiresAt)
	b = appendDuration(b, "ttl", l.TTL, time.Second)
	if len(l.Headers) > 0 {
		b = member.Value(b, "headers", pairsOf(l.Headers))
	}
	if len(l.Retry) > 0 {
		b = member.Value(b, "retry", secondsOf(l.Retry))
	}
	b = appendInt(b, "count", l.Count)
	b = appendDuration(b, "delay", l.Delay, time.Second)
	b = appendText(b, "via", l.Via)
	if l.Body != nil {
		b = appendBytes(b, "body", l.Body)
	}
	return endLine(b, start)
}

// UnmarshalJSON decodes a line of a request file.
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
		ContentType: w.Base64.or("content_type", w.ContentType), Count: w.Count,
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

// attemptWire is the JSON of an AttemptLine.
type attemptWire struct {
	TS        timestamp   `json:"ts"`
	Topic     string      `json:"topic"`
	ID        string      `json:"id"`
	CreatedAt millis      `json:"created_at"`
	N         int         `json:"n"`
	StartedAt millis      `json:"started_at"`
	TookMS    float64     `json:"took_ms"`
	Status    int         `json:"status"`
	Outcome   Outcome     `json:"outcome"`
	Reason    string      `json:"reason"`
	Error     string      `json:"error"`
	Shard     string      `json:"shard"`
	Revision  int64       `json:"rev"`
	Process   string      `json:"process"`
	Result    string      `json:"result"`
	Base64    base64Texts `json:",embed"`
}

func (l *AttemptLine) append(b []byte, now time.Time, process string) []byte {
	start := len(b)
	b = beginLine(b, l.TS, now)
	b = appendText(b, "topic", l.Topic)
	b = appendText(b, "id", l.ID)
	b = appendMillis(b, "created_at", l.CreatedAt)
	b = appendInt(b, "n", l.N)
	b = appendMillis(b, "started_at", l.StartedAt)
	b = appendDuration(b, "took_ms", l.Took, time.Millisecond)
	b = appendInt(b, "status", l.Status)
	b = appendText(b, "outcome", l.Outcome)
	b = appendText(b, "reason", l.Reason)
	b = appendText(b, "error", l.Error)
	b = appendText(b, "shard", l.Shard)
	b = appendInt(b, "rev", l.Revision)
	b = appendText(b, "process", cmp.Or(l.Process, process))
	b = appendText(b, "result", l.Result)
	return endLine(b, start)
}

// UnmarshalJSON decodes a line of a notify file.
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

func (l *ErrorLine) append(b []byte, now time.Time, process string) []byte {
	start := len(b)
	b = beginLine(b, l.TS, now)
	b = appendText(b, "process", cmp.Or(l.Process, process))
	b = appendText(b, "where", l.Where)
	b = appendText(b, "error", l.Error)
	b = appendText(b, "context", l.Context)
	return endLine(b, start)
}

// lenient accepts lines of every version.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

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

// UnmarshalText parses any RFC 3339 time.
func (t *timestamp) UnmarshalText(b []byte) error {
	at, err := time.Parse(time.RFC3339Nano, string(b))
	*t = timestamp(at)
	return err
}

// millis is a time in Unix milliseconds.
type millis time.Time

// UnmarshalJSONFrom decodes a number.
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

// UnmarshalText distinguishes an empty body from none.
func (t *text) UnmarshalText(b []byte) error {
	*t = append([]byte{}, b...)
	return nil
}

// pairs holds names and their texts. It is not an object, since {"ts":" may occur only at the beginning of a line.
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

// suffix64 is the suffix of the name of a text that is not UTF-8 and therefore written in base64.
const suffix64 = "_b64"

// base64Texts holds the texts of a line that are not UTF-8, by name, and members that later versions may add.
type base64Texts map[string]jsontext.Value

func (m base64Texts) get(name string) (data []byte, ok bool) {
	v, ok := m[name+suffix64]
	return data, ok && json.Unmarshal(v, &data) == nil
}

// or returns the base64 text of a name if there is one, or else s.
func (m base64Texts) or(name, s string) string {
	if data, ok := m.get(name); ok {
		return string(data)
	}
	return s
}

// toDuration rounds to nanoseconds, which removes the error of decimal fractions.
func toDuration(f float64, unit time.Duration) time.Duration {
	return time.Duration(math.Round(f * float64(unit)))
}
