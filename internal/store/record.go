package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// A job's record is text that redis-cli shows:
//
//	waiting normal 1764086400123 1764084600123 0 17 ttr=30000 type=text/plain
//	the body
//
// First the state, the priority, the due time and the creation in Unix milliseconds, the number of attempts, and the
// revision of the last change. Then come the pairs of what only some jobs have, with values without spaces:
//
//	order             its place among the due jobs of its topic: beanstalkd's priority
//	ttr, max, retry   its own TTR in ms, attempts, and waits between attempts in ms
//	key               of which the topic calls some at a time, see lua/shared/key.lua
//	expires           when it expires, in ms
//	tp                the traceparent of its push
//	url               its own URL: has no spaces
//	type, headers     its own content type, and headers as JSON
//	next              when it is retried, if that is not its due time
//	await             somebody waits for its end, see answer.go
//	snoozes           in a row, since the last attempt that counted
//	tried             it has attempts, although their number was set to 0 since
//	long              its body is in b:TOPIC/ID
//	token             of its lease
//	reason            why it is dead
//	last, bodygone    of a finished job: its last attempt as JSON; its body was too long to be remembered
//
// The rest, after the line break, is the body.
type record struct {
	state    string
	priority Priority
	due      time.Time
	created  time.Time
	attempts int
	revision int64
	pairs    map[string]string
	body     string
}

// Priority orders jobs that are ready. Lower values are more urgent.
type Priority uint8

// The three priorities, consumed 5:3:2 by default.
const (
	High Priority = iota
	Normal
	Low
)

var priorityNames = [...]string{"high", "normal", "low"}

func (p Priority) String() string {
	if int(p) < len(priorityNames) {
		return priorityNames[p]
	}
	return fmt.Sprintf("priority(%d)", uint8(p))
}

// ParsePriority reads "high", "normal" or "low".
func ParsePriority(s string) (Priority, error) {
	for i, n := range priorityNames {
		if s == n {
			return Priority(i), nil
		}
	}
	return 0, fmt.Errorf("priority %q is not high, normal or low", s)
}

// ErrRecord is the error of a job whose record is damaged.
var ErrRecord = errors.New("the stored record cannot be decoded")

const recordFields = 6

func parseRecord(text string) (r record, err error) {
	head, body, ok := strings.Cut(text, "\n")
	fields := strings.FieldsFunc(head, func(r rune) bool { return r == ' ' }) // values may have other spaces
	if !ok || len(fields) < recordFields {
		return r, fmt.Errorf("%.60q: %w", text, ErrRecord)
	}
	r.state, r.body = fields[0], body
	r.due, r.created = millisOf(fields[2]), millisOf(fields[3])
	if r.priority, err = ParsePriority(fields[1]); err != nil {
		return r, fmt.Errorf("%.60q: %w", text, ErrRecord)
	}
	r.attempts, r.revision = int(Number(fields[4])), Number(fields[5])
	if len(fields) > recordFields {
		r.pairs = make(map[string]string, len(fields)-recordFields)
	}
	for _, pair := range fields[recordFields:] {
		name, value, _ := strings.Cut(pair, "=")
		r.pairs[name] = value
	}
	return r, nil
}

func millisOf(text string) time.Time { return time.UnixMilli(Number(text)).UTC() }

// Millis returns a time in Unix milliseconds.
func Millis(v any) time.Time { return time.UnixMilli(Integer(v)).UTC() }

func micros(v any) time.Time { return time.UnixMicro(Integer(v)).UTC() }

// into sets the fields of a job that its record has.
func (r *record) into(j *Job) error {
	j.Priority, j.DueAt, j.CreatedAt, j.Attempts, j.Revision = r.priority, r.due, r.created, r.attempts, r.revision
	j.Body = []byte(r.body)
	for name, value := range r.pairs {
		switch name {
		case "order":
			j.Order = new(uint32(Number(value)))
		case "ttr":
			j.TTR = time.Duration(Number(value)) * time.Millisecond
		case "max":
			j.MaxAttempts = int(Number(value))
		case "retry":
			for ms := range strings.SplitSeq(value, ",") {
				j.Retry = append(j.Retry, time.Duration(Number(ms))*time.Millisecond)
			}
		case "group":
			j.Group = unescape(value)
		case "tp":
			j.Traceparent = value
		case "key":
			j.Key = unescape(value)
		case "url":
			j.URL = value
		case "quota":
			j.Quota = value
		case "sched":
			j.Schedule = value
		case "for":
			j.For = millisOf(value)
		case "await":
			j.Awaited = true
		case "expires":
			j.ExpiresAt = millisOf(value)
		case "type":
			j.ContentType = unescape(value)
		case "headers":
			if err := json.Unmarshal([]byte(value), &j.Headers); err != nil {
				return fmt.Errorf("headers %.60q: %w", value, ErrRecord)
			}
		case "snoozes":
			j.Snoozes = int(Number(value))
		case "reason":
			j.DeadReason = unescape(value)
		case "bodygone":
			j.BodyGone = true
		}
	}
	return nil
}

// MaxWaits is the most waits between attempts in Push.Retry.
const MaxWaits = 50

// appendPairs appends the pairs of a record for what a push sets, each after a space.
func appendPairs(b []byte, p *Push) []byte {
	if p.Order != nil {
		b = strconv.AppendUint(append(b, " order="...), uint64(*p.Order), 10)
	}
	if p.TTR > 0 {
		b = strconv.AppendInt(append(b, " ttr="...), p.TTR.Milliseconds(), 10)
	}
	if p.MaxAttempts > 0 {
		b = strconv.AppendInt(append(b, " max="...), int64(p.MaxAttempts), 10)
	}
	for i, wait := range p.Retry[:min(len(p.Retry), MaxWaits)] {
		if i == 0 {
			b = append(b, " retry="...)
		} else {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, max(ceilDelay(wait), 0), 10)
	}
	if p.Group != "" {
		b = append(append(b, " group="...), Escape(p.Group)...)
	}
	if p.Traceparent != "" {
		b = append(append(b, " tp="...), p.Traceparent...)
	}
	if p.Key != "" {
		b = append(append(b, " key="...), Escape(p.Key)...)
	}
	if p.URL != "" {
		b = append(append(b, " url="...), p.URL...)
	}
	if p.Quota != "" {
		b = append(append(b, " quota="...), p.Quota...)
	}
	if p.Schedule != "" {
		b = append(append(b, " sched="...), p.Schedule...)
		b = strconv.AppendInt(append(b, " for="...), p.For.UnixMilli(), 10)
	}
	if p.Awaited {
		b = append(b, " await=1"...)
	}
	if p.ContentType != "" {
		b = append(append(b, " type="...), Escape(p.ContentType)...)
	}
	if len(p.Headers) > 0 {
		headers, _ := json.Marshal(p.Headers) // a map of texts: cannot fail
		b = append(append(b, " headers="...), withoutSpaces(headers)...)
	}
	return b
}

// Escape returns a text without spaces and control characters.
func Escape(s string) string { return strings.ReplaceAll(url.PathEscape(s), "%2F", "/") }

func unescape(s string) string {
	text, err := url.PathUnescape(s)
	if err != nil {
		return s
	}
	return text
}

// withoutSpaces returns JSON without spaces, which compact JSON has only inside of texts.
func withoutSpaces(json []byte) string { return strings.ReplaceAll(string(json), " ", `\u0020`) }

// RecordOf returns the record of a job for another server, which sets the revision, and the body when it is long.
func RecordOf(j *Job) (text, long []byte) {
	b := fmt.Appendf(nil, "waiting %s %d %d %d 0", j.Priority, max(0, j.DueAt.UnixMilli()),
		max(0, j.CreatedAt.UnixMilli()), j.Attempts)
	if j.State == Dead {
		b = append([]byte("dead"), b[len("waiting"):]...)
		if j.DeadReason != "" {
			b = append(append(b, " reason="...), Escape(j.DeadReason)...)
		}
	}
	pairs := len(b)
	b = appendPairs(b, j.Pushed())
	if !j.ExpiresAt.IsZero() {
		b = strconv.AppendInt(append(b, " expires="...), max(1, j.ExpiresAt.UnixMilli()), 10)
	}
	if j.Snoozes > 0 {
		b = strconv.AppendInt(append(b, " snoozes="...), int64(j.Snoozes), 10)
	}
	if j.Attempts == 0 && len(j.History) > 0 {
		b = append(b, " tried=1"...)
	}
	if !j.NextAt.IsZero() && !j.NextAt.Equal(j.DueAt) {
		b = strconv.AppendInt(append(b, " next="...), j.NextAt.UnixMilli(), 10)
	}
	if len(b)-pairs+len(j.Body) > longBody {
		return append(b, " long=1\n"...), j.Body
	}
	return append(append(b, '\n'), j.Body...), nil
}

// longBody is the length of pairs and body above which the body has a key of its own; see LONG in store.lua.
const longBody = 448

// Pushed returns a push that stores the job as it is, apart from its times.
func (j *Job) Pushed() *Push {
	return &Push{
		Topic: j.Topic, ID: j.ID, Body: j.Body, ContentType: j.ContentType, Priority: j.Priority, Order: j.Order,
		TTR: j.TTR, MaxAttempts: j.MaxAttempts, ExpiresAt: j.ExpiresAt, Headers: j.Headers, Retry: j.Retry,
		Group: j.Group, Key: j.Key, Traceparent: j.Traceparent, URL: j.URL, Quota: j.Quota, Schedule: j.Schedule,
		For: j.For, Awaited: j.Awaited,
	}
}

// CeilMilli rounds a time up to a millisecond, so that a job is never due before the time that was asked for.
func CeilMilli(t time.Time) time.Time {
	if down := t.Truncate(time.Millisecond); !down.Equal(t) {
		return down.Add(time.Millisecond)
	}
	return t
}

// a:TOPIC/ID is a list of a job's last HistoryLimit attempts, each as JSON.

// expiredError is the error of an attempt whose lease expired.
const expiredError = "lease expired before an outcome was reported"

// encodeAttempt returns an attempt as it is stored.
func encodeAttempt(a *Attempt) string {
	if a == nil {
		return ""
	}
	text, _ := json.Marshal(a) // numbers and texts: cannot fail
	return withoutSpaces(text)
}

// decodeAttempts decodes a list of attempts. One that was stored without its number follows the one before it.
func decodeAttempts(v any) ([]Attempt, error) {
	list := Values(v)
	if len(list) == 0 {
		return nil, nil
	}
	history := make([]Attempt, len(list))
	for i, v := range list {
		if err := json.Unmarshal([]byte(Text(v)), &history[i]); err != nil {
			return nil, fmt.Errorf("attempt %.60q: %w", v, ErrRecord)
		}
		if history[i].N == 0 {
			history[i].N = 1
			if i > 0 {
				history[i].N = history[i-1].N + 1
			}
		}
	}
	return history, nil
}

// lastAttempts returns the last HistoryLimit attempts.
func lastAttempts(history []Attempt) []Attempt {
	return history[max(0, len(history)-HistoryLimit):]
}

// AppendAttempts appends how many attempts a job has, and these, as arguments of a script.
func AppendAttempts(args []any, history []Attempt) []any {
	history = lastAttempts(history)
	args = append(args, len(history))
	for i := range history {
		args = append(args, encodeAttempt(&history[i]))
	}
	return args
}

// shorten returns the beginning of a text, at most n bytes of valid UTF-8.
func shorten(s string, n int) string { return strings.ToValidUTF8(s[:min(len(s), n)], "") }

const maxFinishedAnswer = 256 // bytes

// rememberedAnswer returns the part of an endpoint's answer, or of a worker's result, that is remembered.
func rememberedAnswer(answer string) string {
	return shorten(answer, maxFinishedAnswer)
}
