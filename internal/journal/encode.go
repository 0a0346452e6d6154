package journal

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// lineStart begins every line and occurs nowhere else.
const lineStart = `{"ts":"`

const timeForm = "2006-01-02T15:04:05.000Z"

// requestWire is the JSON of a RequestLine. Times are in Unix milliseconds, durations in seconds.
type requestWire struct {
	TS          string         `json:"ts"`
	Op          Op             `json:"op,omitzero"`
	Topic       string         `json:"topic,omitzero"`
	ID          string         `json:"id,omitzero"`
	Shard       string         `json:"shard,omitzero"`
	Revision    int64          `json:"rev,omitzero"`
	DueAt       int64          `json:"due_at,omitzero"`
	CreatedAt   int64          `json:"created_at,omitzero"`
	ChangedAt   int64          `json:"changed_at,omitzero"`
	Priority    string         `json:"priority,omitzero"`
	Order       *uint32        `json:"order,omitzero"`
	TTR         float64        `json:"ttr,omitzero"`
	MaxAttempts int            `json:"max_attempts,omitzero"`
	ContentType string         `json:"content_type,omitzero"`
	ExpiresAt   int64          `json:"expires_at,omitzero"`
	TTL         float64        `json:"ttl,omitzero"`
	Headers     pairs          `json:"headers,omitzero"`
	Retry       []float64      `json:"retry,omitzero"`
	Delay       float64        `json:"delay,omitzero"`
	Group       string         `json:"group,omitzero"`
	Traceparent string         `json:"traceparent,omitzero"`
	Key         string         `json:"key,omitzero"`
	URL         string         `json:"url,omitzero"`
	Quota       string         `json:"quota,omitzero"`
	Topics      string         `json:"topics,omitzero"`
	Bucket      int            `json:"bucket,omitzero"`
	Schedule    string         `json:"schedule,omitzero"`
	For         int64          `json:"for,omitzero"`
	Definition  int64          `json:"definition,omitzero"`
	Awaited     bool           `json:"await,omitzero"`
	Last        jsontext.Value `json:"last,omitzero"`
	LeftOut     map[string]int `json:"left_out,omitzero"`
	Via         string         `json:"via,omitzero"`
	By          string         `json:"by,omitzero"`
	NextAt      int64          `json:"next_at,omitzero"`
	Attempts    int            `json:"attempts,omitzero"`
	Snoozes     int            `json:"snoozes,omitzero"`
	History     jsontext.Value `json:"history,omitzero"`
	DeadAt      int64          `json:"dead_at,omitzero"`
	DeadReason  string         `json:"dead_reason,omitzero"`
	Body        *string        `json:"body,omitzero"`
	Body64      []byte         `json:"body_b64,omitzero"` // a body that is not UTF-8
}

func (l *RequestLine) append(b []byte, now time.Time) ([]byte, error) {
	w := requestWire{
		TS: stampOf(l.TS, now), Op: l.Op, Topic: l.Topic, ID: l.ID, Shard: l.Shard, Revision: l.Revision,
		DueAt: millisOf(l.DueAt), CreatedAt: millisOf(l.CreatedAt), ChangedAt: millisOf(l.ChangedAt),
		Priority: l.Priority, Order: l.Order, TTR: l.TTR.Seconds(), MaxAttempts: l.MaxAttempts,
		ContentType: l.ContentType,
		ExpiresAt:   millisOf(l.ExpiresAt), TTL: l.TTL.Seconds(), Headers: pairsOf(l.Headers), Delay: l.Delay.Seconds(),
		Group: l.Group, Key: l.Key, Traceparent: l.Traceparent, URL: l.URL, Quota: l.Quota, Topics: l.Topics,
		Bucket: l.Bucket, Via: l.Via, By: l.By,
		Schedule: l.Schedule, For: millisOf(l.For), Definition: l.Definition, Last: l.Last, LeftOut: l.LeftOut,
		Awaited: l.Awaited, NextAt: millisOf(l.NextAt), Attempts: l.Attempts, Snoozes: l.Snoozes, History: l.History,
		DeadAt: millisOf(l.DeadAt), DeadReason: l.DeadReason,
	}
	for _, d := range l.Retry {
		w.Retry = append(w.Retry, d.Seconds())
	}
	switch {
	case l.Body == nil:
	case utf8.Valid(l.Body):
		body := string(l.Body)
		w.Body = &body
	default:
		w.Body64 = l.Body
	}
	return appendLine(b, &w)
}

// attemptWire is the JSON of an AttemptLine. Times are in Unix milliseconds.
type attemptWire struct {
	TS        string  `json:"ts"`
	Topic     string  `json:"topic,omitzero"`
	ID        string  `json:"id,omitzero"`
	CreatedAt int64   `json:"created_at,omitzero"`
	N         int     `json:"n,omitzero"`
	StartedAt int64   `json:"started_at,omitzero"`
	TookMS    float64 `json:"took_ms,omitzero"`
	Status    int     `json:"status,omitzero"`
	Outcome   Outcome `json:"outcome,omitzero"`
	Reason    string  `json:"reason,omitzero"`
	Error     string  `json:"error,omitzero"`
	Shard     string  `json:"shard,omitzero"`
	Revision  int64   `json:"rev,omitzero"`
	Process   string  `json:"process,omitzero"`
	Result    string  `json:"result,omitzero"`
	Answer    string  `json:"answer,omitzero"`
	Schedule  string  `json:"schedule,omitzero"`
	For       int64   `json:"for,omitzero"`
}

func (l *AttemptLine) append(b []byte, now time.Time, process string) ([]byte, error) {
	return appendLine(b, &attemptWire{
		TS: stampOf(l.TS, now), Topic: l.Topic, ID: l.ID, CreatedAt: millisOf(l.CreatedAt), N: l.N,
		StartedAt: millisOf(l.StartedAt), TookMS: float64(l.Took) / float64(time.Millisecond), Status: l.Status,
		Outcome: l.Outcome, Reason: l.Reason, Error: l.Error, Shard: l.Shard, Revision: l.Revision,
		Process: cmp.Or(l.Process, process), Result: l.Result, Schedule: l.Schedule, For: millisOf(l.For),
		Answer: l.Answer,
	})
}

// errorWire is the JSON of an ErrorLine.
type errorWire struct {
	TS      string `json:"ts"`
	Process string `json:"process,omitzero"`
	Where   string `json:"where,omitzero"`
	Error   string `json:"error,omitzero"`
	Context string `json:"context,omitzero"`
}

func (l *ErrorLine) append(b []byte, now time.Time, process string) ([]byte, error) {
	return appendLine(b, &errorWire{stampOf(l.TS, now), cmp.Or(l.Process, process), l.Where, l.Error, l.Context})
}

// lenient makes the encoder replace what is not UTF-8, and saves it the search for names that occur twice.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// appendLine appends the JSON of a line with its checksum, and a newline.
func appendLine(b []byte, wire any) ([]byte, error) {
	buffer := bytes.NewBuffer(b)
	if err := json.MarshalWrite(buffer, wire, lenient); err != nil {
		return b, fmt.Errorf("encode a line: %w", err)
	}
	to := buffer.Bytes()
	if line := to[len(b):]; mayNeedEscapes(line) {
		to = append(to[:len(b)], escapeControls(line)...)
	}
	to = to[:len(to)-len("}")]
	return append(appendChecksum(to, to[len(b):]), '\n'), nil
}

// checksumSize is the size of what appendChecksum appends.
const checksumSize = len(`,"crc":"01234567"}`)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendChecksum appends the end of a line: the CRC-32C of what comes before it. Without that, a bit that flipped on
// the disk makes another body, or another id, that nobody pushed.
func appendChecksum(b, line []byte) []byte {
	var sum [crc32.Size]byte
	binary.BigEndian.PutUint32(sum[:], crc32.Checksum(line, castagnoli))
	b = append(b, `,"crc":"`...)
	b = hex.AppendEncode(b, sum[:])
	return append(b, `"}`...)
}

// stampOf returns the time of a line, which is now unless the line has one.
func stampOf(ts, now time.Time) string {
	if ts.IsZero() {
		ts = now
	}
	return ts.UTC().Format(timeForm)
}

// millisOf and timeOf convert a time; the zero one is 0.
func millisOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// pairs holds names and their texts. It is not an object, since {"ts":" may occur only at the beginning of a line.
type pairs [][2]string

func pairsOf(texts map[string]string) (p pairs) {
	if len(texts) == 0 {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		p = append(p, [2]string{name, texts[name]})
	}
	return p
}

// mayNeedEscapes reports whether a line has the first byte of a character that escapeControls escapes.
func mayNeedEscapes(line []byte) bool {
	return bytes.IndexByte(line, 0x7f) >= 0 || bytes.IndexByte(line, 0xc2) >= 0 || bytes.IndexByte(line, 0xe2) >= 0
}

// escapeControls escapes characters that JSON allows in strings, but that a terminal would interpret, or where some
// readers would split a line: control characters, and the line separators outside ASCII.
func escapeControls(line []byte) []byte {
	escaped := make([]byte, 0, len(line)+len(line)/8)
	for len(line) > 0 {
		r, size := utf8.DecodeRune(line)
		if r >= 0x7f && r <= 0x9f || r == '\u2028' || r == '\u2029' {
			escaped = fmt.Appendf(escaped, `\u%04x`, r)
		} else {
			escaped = append(escaped, line[:size]...)
		}
		line = line[size:]
	}
	return escaped
}
