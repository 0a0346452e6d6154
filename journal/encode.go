package journal

import (
	"encoding/base64"
	"strconv"
	"time"
	"unicode/utf8"
)

// lineStart begins every line and occurs nowhere else in one.
const lineStart = `{"ts":"`

const timeForm = "2006-01-02T15:04:05.000Z"

// appendStart writes the time in timeForm; AppendFormat is three times as fast without the milliseconds.
func appendStart(b []byte, ts time.Time) []byte {
	b = append(b, lineStart...)
	b = ts.UTC().AppendFormat(b, time.RFC3339)
	ms := ts.Nanosecond() / int(time.Millisecond)
	return append(b[:len(b)-len("Z")], '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z', '"')
}

func (l *RequestLine) append(b []byte, now time.Time) []byte {
	b = appendStart(b, orNow(l.TS, now))
	b = appendText(b, "op", string(l.Op))
	b = appendText(b, "topic", l.Topic)
	b = appendText(b, "id", l.ID)
	b = appendText(b, "shard", l.Shard)
	b = appendInstant(b, "due_at", l.DueAt)
	b = appendInstant(b, "created_at", l.CreatedAt)
	b = appendInstant(b, "changed_at", l.ChangedAt)
	b = appendText(b, "priority", l.Priority)
	if l.TTR != 0 {
		b = appendFloat(b, "ttr", l.TTR.Seconds())
	}
	b = appendInt(b, "max_attempts", int64(l.MaxAttempts))
	b = appendText(b, "content_type", l.ContentType)
	b = appendInt(b, "count", int64(l.Count))
	b = appendText(b, "on_duplicate", l.OnDuplicate)
	if l.Delay != 0 {
		b = appendFloat(b, "delay", l.Delay.Seconds())
	}
	if l.Body != nil {
		b = appendMember(b, "body", l.Body)
	}
	return append(b, "}\n"...)
}

// AppendRequest appends a line as it stands in a file.
func AppendRequest(b []byte, l *RequestLine) []byte { return l.append(b, l.TS) }

func (l *AttemptLine) append(b []byte, now time.Time, process string) []byte {
	b = appendStart(b, orNow(l.TS, now))
	b = appendText(b, "topic", l.Topic)
	b = appendText(b, "id", l.ID)
	b = appendInstant(b, "created_at", l.CreatedAt)
	b = appendInt(b, "n", int64(l.N))
	b = appendInstant(b, "started_at", l.StartedAt)
	if l.Took != 0 {
		b = appendFloat(b, "took_ms", float64(l.Took)/float64(time.Millisecond))
	}
	b = appendInt(b, "status", int64(l.Status))
	b = appendText(b, "outcome", string(l.Outcome))
	b = appendText(b, "reason", l.Reason)
	b = appendText(b, "error", l.Error)
	b = appendText(b, "shard", l.Shard)
	b = appendText(b, "process", or(l.Process, process))
	return append(b, "}\n"...)
}

// AppendAttempt appends a line as it stands in a file.
func AppendAttempt(b []byte, l *AttemptLine) []byte { return l.append(b, l.TS, l.Process) }

func (l *ErrorLine) append(b []byte, now time.Time, process string) []byte {
	b = appendStart(b, orNow(l.TS, now))
	b = appendText(b, "process", or(l.Process, process))
	b = appendText(b, "where", l.Where)
	b = appendText(b, "error", l.Error)
	b = appendText(b, "context", l.Context)
	return append(b, "}\n"...)
}

func orNow(t, now time.Time) time.Time {
	if t.IsZero() {
		return now
	}
	return t
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func appendName(b []byte, name string) []byte {
	b = append(b, `,"`...)
	b = append(b, name...)
	return append(b, `":`...)
}

func appendInt(b []byte, name string, n int64) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendInt(appendName(b, name), n, 10)
}

func appendFloat(b []byte, name string, f float64) []byte {
	return strconv.AppendFloat(appendName(b, name), f, 'f', -1, 64)
}

func appendInstant(b []byte, name string, t time.Time) []byte {
	if t.IsZero() {
		return b
	}
	return strconv.AppendInt(appendName(b, name), t.UnixMilli(), 10)
}

func appendText(b []byte, name, s string) []byte {
	if s == "" {
		return b
	}
	if !utf8.ValidString(s) {
		return appendBase64(b, name, []byte(s))
	}
	return appendString(appendName(b, name), s)
}

// appendMember is appendText for bytes, which may be present and empty.
func appendMember(b []byte, name string, data []byte) []byte {
	if !utf8.Valid(data) {
		return appendBase64(b, name, data)
	}
	return appendString(appendName(b, name), data)
}

func appendBase64(b []byte, name string, data []byte) []byte {
	b = append(b, `,"`...)
	b = append(b, name...)
	b = append(b, `_b64":"`...)
	b = base64.StdEncoding.AppendEncode(b, data)
	return append(b, '"')
}

// plain marks the bytes that stand for themselves in a JSON string. The two lead bytes that are not plain begin the
// line separators outside ASCII, at which some readers would split a line, and the control characters that a terminal obeys.
var plain = func() (table [256]bool) {
	for c := range table {
		table[c] = c >= ' ' && c != '"' && c != '\\' && c != 0x7f && c != 0xc2 && c != 0xe2
	}
	return table
}()

const hexDigits = "0123456789abcdef"

// appendString appends valid UTF-8 as a JSON string.
func appendString[T string | []byte](b []byte, s T) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		if plain[s[i]] {
			i++
			continue
		}
		escape, length := escapeAt(s, i)
		if escape != "" {
			b = append(b, s[start:i]...)
			b = append(b, escape...)
			start = i + length
		}
		i += length
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

// escapeAt is the escape of the character that begins at i, if it needs one, and how many bytes to go on by.
func escapeAt[T string | []byte](s T, i int) (string, int) {
	switch c := s[i]; c {
	case 0xc2: // the next byte is there: s is valid UTF-8
		if c := s[i+1]; c < 0xa0 {
			return controlEscapes[c-0x80], 2
		}
		return "", 2
	case 0xe2:
		if s[i+1] == 0x80 && s[i+2] == 0xa8 {
			return `\u2028`, 3
		}
		if s[i+1] == 0x80 && s[i+2] == 0xa9 {
			return `\u2029`, 3
		}
		return "", 3
	default:
		return asciiEscapes[c], 1
	}
}

var asciiEscapes = func() (table [128]string) {
	for c := range table {
		if !plain[c] {
			table[c] = `\u00` + string(hexDigits[c>>4]) + string(hexDigits[c&15])
		}
	}
	table['"'], table['\\'] = `\"`, `\\`
	table['\n'], table['\r'], table['\t'] = `\n`, `\r`, `\t`
	return table
}()

// controlEscapes are those of U+0080 to U+009F.
var controlEscapes = func() (table [0x20]string) {
	for c := range table {
		table[c] = `\u00` + string(hexDigits[8+c>>4]) + string(hexDigits[c&15])
	}
	return table
}()
