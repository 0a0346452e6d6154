package registry

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/mail"
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"
)

// FieldError is what is wrong with one field of a topic.
type FieldError struct {
	Field      string
	Detail     string // names the value and the way out
	OutOfRange bool   // well-formed, but not allowed: 422 rather than 400
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Detail }

func malformed(field, format string, args ...any) error {
	return &FieldError{Field: field, Detail: fmt.Sprintf(format, args...)}
}

func outOfRange(field, format string, args ...any) error {
	return &FieldError{Field: field, Detail: fmt.Sprintf(format, args...), OutOfRange: true}
}

var topicName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// ValidTopicName checks the form of a topic's name.
func ValidTopicName(name string) error {
	if !topicName.MatchString(name) {
		return malformed("name", "%.80q is not a topic's name: 1 to 64 of a-z, 0-9, dot, dash and underline, beginning with a letter or digit", name)
	}
	return nil
}

// NewTopic is a topic with every default; it lacks only a callback URL.
func NewTopic(name string) Topic {
	return Topic{
		Name: name, Method: "POST", ContentType: "json", Headers: map[string]string{}, TTR: Duration(10 * time.Second), Priority: "normal",
		MaxAttempts: 10, Retry: []Duration{}, Emails: []string{}, State: TopicActive,
	}
}

// topicBody is what a client may send of a topic: the name stands in the path, times are the registry's.
type topicBody struct {
	Title        *string           `json:"title"`
	CallbackURL  *string           `json:"callback_url"`
	Method       *string           `json:"method"`
	ContentType  *string           `json:"content_type"`
	Headers      map[string]string `json:"headers"`
	Delay        *Duration         `json:"delay"`
	TTR          *Duration         `json:"ttr"`
	Priority     *string           `json:"priority"`
	MaxAttempts  *int              `json:"max_attempts"`
	Retry        []Duration        `json:"retry"`
	RetryIf      *string           `json:"retry_if"`
	MaxInFlight  *int              `json:"max_in_flight"`
	RateLimit    *float64          `json:"rate_limit"`
	ExpiresAfter *Duration         `json:"expires_after"`
	Emails       []string          `json:"emails"`
	Owner        *string           `json:"owner"`
	Secrets      *[]string         `json:"secrets"`
	State        *TopicState       `json:"state"`
	// Shown, and so accepted back when they are the topic's own; they change nothing.
	Name      *string    `json:"name"`
	CreatedAt *time.Time `json:"created_at"`
	UpdatedAt *time.Time `json:"updated_at"`
}

// DecodeTopic reads a topic from JSON over the defaults and validates it. Secrets is nil when the JSON has none, which keeps those that the
// topic has. Errors are *FieldErrors, or one of the JSON itself.
func DecodeTopic(name string, data []byte) (*Topic, error) {
	if err := ValidTopicName(name); err != nil {
		return nil, err
	}
	if err := noDuplicateKeys(data); err != nil {
		return nil, err
	}
	var b topicBody
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil {
		var de errDuration
		if errors.As(err, &de) {
			return nil, malformed(durationField(data), "%s", de.Error())
		}
		return nil, jsonError(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, malformed("", "there is something behind the JSON object")
	}
	if b.Name != nil && *b.Name != name {
		return nil, malformed("name", "%.80q is not the topic of the address, %q", *b.Name, name)
	}
	t := b.topic(name)
	return t, t.Validate()
}

func (b *topicBody) topic(name string) *Topic {
	t := NewTopic(name)
	set(&t.Title, b.Title)
	set(&t.CallbackURL, b.CallbackURL)
	set(&t.Method, b.Method)
	set(&t.ContentType, b.ContentType)
	set(&t.Delay, b.Delay)
	set(&t.TTR, b.TTR)
	set(&t.Priority, b.Priority)
	set(&t.MaxAttempts, b.MaxAttempts)
	set(&t.RetryIf, b.RetryIf)
	set(&t.MaxInFlight, b.MaxInFlight)
	set(&t.RateLimit, b.RateLimit)
	set(&t.ExpiresAfter, b.ExpiresAfter)
	set(&t.Owner, b.Owner)
	set(&t.State, b.State)
	if b.Secrets != nil {
		t.Secrets = append([]string{}, *b.Secrets...)
	}
	if b.Headers != nil {
		t.Headers = b.Headers
	}
	if b.Retry != nil {
		t.Retry = b.Retry
	}
	if b.Emails != nil {
		t.Emails = b.Emails
	}
	return &t
}

// durationField finds the field whose duration cannot be read: encoding/json does not tell.
func durationField(data []byte) string {
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(data, &fields) // it is JSON: one field of it was wrong
	var d Duration
	var list []Duration
	for _, name := range []string{"delay", "ttr", "expires_after"} {
		if raw, ok := fields[name]; ok && json.Unmarshal(raw, &d) != nil {
			return name
		}
	}
	if raw, ok := fields["retry"]; ok && json.Unmarshal(raw, &list) != nil {
		return "retry"
	}
	return ""
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// jsonError turns what encoding/json says into a field and words for people.
func jsonError(err error) error {
	var te *json.UnmarshalTypeError
	if errors.As(err, &te) {
		return malformed(te.Field, "is a JSON %s; expected %s", te.Value, te.Type)
	}
	if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		name := strings.Trim(field, `"`)
		return malformed(name, "is not a field of a topic")
	}
	var se *json.SyntaxError
	if errors.As(err, &se) {
		return malformed("", "it is not JSON: %v, at byte %d", se, se.Offset)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return malformed("", "the JSON ends too early")
	}
	return malformed("", "%s", strings.TrimPrefix(err.Error(), "json: "))
}

// noDuplicateKeys refuses an object that says one thing twice: readers would disagree about which counts.
func noDuplicateKeys(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	t, err := d.Token()
	if err != nil {
		return jsonError(err)
	}
	if t != json.Delim('{') {
		return malformed("", "expected a JSON object")
	}
	seen := map[string]bool{}
	for d.More() {
		k, err := d.Token()
		if err != nil {
			return jsonError(err)
		}
		key, _ := k.(string)
		if seen[key] {
			return malformed(key, "stands twice")
		}
		seen[key] = true
		var skip json.RawMessage
		if err := d.Decode(&skip); err != nil {
			return jsonError(err)
		}
	}
	return nil
}

// Bounds of a topic's fields.
const (
	MaxTTR       = time.Hour
	MinTTR       = 100 * time.Millisecond
	maxDelay     = 365 * 24 * time.Hour
	maxRetryWait = 30 * 24 * time.Hour
	maxRetries   = 50
	maxAttempts  = 1000
	maxInFlight  = 100000
	maxRate      = 100000
	maxURL       = 2048
	maxHeaders   = 32
	maxHeaderSum = 8192
	maxEmails    = 20
	maxSecrets   = 2
	maxRetryIf   = 4096
)

// CheckRetryIf compiles a retry_if expression; cmd sets it, since expressions are the callback package's.
var CheckRetryIf func(string) error

// Validate checks every field and reports all that is wrong, as *FieldErrors joined.
func (t *Topic) Validate() error {
	return errors.Join(
		ValidTopicName(t.Name), text("title", t.Title, 200), text("owner", t.Owner, 200), t.validURL(),
		oneOf("method", t.Method, "POST", "PUT", "GET"), validType(t.ContentType), t.validHeaders(),
		between("delay", t.Delay, 0, maxDelay), between("ttr", t.TTR, MinTTR, MaxTTR),
		oneOf("priority", t.Priority, "high", "normal", "low"), count("max_attempts", t.MaxAttempts, 1, maxAttempts), t.validRetry(),
		t.validRetryIf(), count("max_in_flight", t.MaxInFlight, 0, maxInFlight), t.validRate(),
		between("expires_after", t.ExpiresAfter, 0, maxDelay), t.validEmails(), t.validSecrets(),
		oneOf("state", string(t.State), string(TopicActive), string(TopicPaused), string(TopicOffline)),
	)
}

func oneOf(field, v string, allowed ...string) error {
	for _, a := range allowed {
		if v == a {
			return nil
		}
	}
	return outOfRange(field, "%.60q is none of %s", v, strings.Join(allowed, ", "))
}

func between(field string, d Duration, low, high time.Duration) error {
	if d.Std() < low || d.Std() > high {
		return outOfRange(field, "%s is not between %s and %s", d, Duration(low), Duration(high))
	}
	return nil
}

func count(field string, n, low, high int) error {
	if n < low || n > high {
		return outOfRange(field, "%d is not between %d and %d", n, low, high)
	}
	return nil
}

func text(field, s string, most int) error {
	switch {
	case !utf8.ValidString(s):
		return malformed(field, "is not UTF-8")
	case utf8.RuneCountInString(s) > most:
		return outOfRange(field, "has more than %d characters", most)
	case strings.ContainsFunc(s, unicode.IsControl):
		return malformed(field, "has a control character")
	}
	return nil
}

func (t *Topic) validURL() error {
	const field = "callback_url"
	if t.CallbackURL == "" {
		return malformed(field, "is missing: the address that is to be called, like https://shop.example/hooks/close")
	}
	if len(t.CallbackURL) > maxURL {
		return outOfRange(field, "is longer than %d bytes", maxURL)
	}
	u, err := url.Parse(t.CallbackURL)
	if err != nil || strings.ContainsFunc(t.CallbackURL, func(r rune) bool { return unicode.IsControl(r) || r == ' ' }) {
		return malformed(field, "is not a URL")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return malformed(field, "begins with %q; expected http:// or https://", u.Scheme)
	case u.Hostname() == "":
		return malformed(field, "has no host")
	case u.User != nil:
		return malformed(field, "has a user name; send an Authorization header instead (headers)")
	case u.Fragment != "":
		return malformed(field, "has a fragment (#), which no server would see")
	}
	return nil
}

func validType(s string) error {
	if s == "json" || s == "form" {
		return nil
	}
	if _, _, err := mime.ParseMediaType(s); err != nil || !strings.Contains(s, "/") || len(s) > 127 || strings.ContainsFunc(s, unicode.IsControl) {
		return malformed("content_type", "%.60q is neither json nor form nor a media type", s)
	}
	return nil
}

var ownHeaders = map[string]bool{
	"host": true, "content-length": true, "content-type": true, "transfer-encoding": true, "connection": true, "user-agent": true, "trailer": true,
	"te": true, "upgrade": true, "keep-alive": true, "expect": true,
}

func (t *Topic) validHeaders() error {
	const field = "headers"
	if len(t.Headers) > maxHeaders {
		return outOfRange(field, "are more than %d", maxHeaders)
	}
	sum := 0
	for k, v := range t.Headers {
		sum += len(k) + len(v)
		name := strings.ToLower(k)
		switch {
		case !httpguts.ValidHeaderFieldName(k):
			return malformed(field, "%.60q is not a header's name", k)
		case !httpguts.ValidHeaderFieldValue(v) || strings.ContainsFunc(v, func(r rune) bool { return r > unicode.MaxASCII }):
			return malformed(field, "the value of %s has a character that a header cannot carry", k)
		case ownHeaders[name] || strings.HasPrefix(name, "webhook-") || strings.HasPrefix(name, "wakecall-"):
			return malformed(field, "%s is set by Wakecall itself", k)
		}
	}
	if sum > maxHeaderSum {
		return outOfRange(field, "are longer than %d bytes together", maxHeaderSum)
	}
	return nil
}

func (t *Topic) validRetry() error {
	if len(t.Retry) > maxRetries {
		return outOfRange("retry", "has more than %d entries; the last one repeats", maxRetries)
	}
	for _, d := range t.Retry {
		if err := between("retry", d, 0, maxRetryWait); err != nil {
			return err
		}
	}
	return nil
}

func (t *Topic) validRetryIf() error {
	if len(t.RetryIf) > maxRetryIf {
		return outOfRange("retry_if", "is longer than %d bytes", maxRetryIf)
	}
	if t.RetryIf == "" || CheckRetryIf == nil {
		return nil
	}
	if err := CheckRetryIf(t.RetryIf); err != nil {
		return malformed("retry_if", "%v", err)
	}
	return nil
}

func (t *Topic) validRate() error {
	if math.IsNaN(t.RateLimit) || t.RateLimit < 0 || t.RateLimit > maxRate || (t.RateLimit > 0 && t.RateLimit < 1e-4) {
		return outOfRange("rate_limit", "%v is neither 0 nor between 0.0001 and %d a second", t.RateLimit, maxRate)
	}
	return nil
}

func (t *Topic) validEmails() error {
	if len(t.Emails) > maxEmails {
		return outOfRange("emails", "are more than %d", maxEmails)
	}
	for _, e := range t.Emails {
		if a, err := mail.ParseAddress(e); err != nil || a.Address != e {
			return malformed("emails", "%.80q is not a mail address", e)
		}
	}
	return nil
}

func (t *Topic) validSecrets() error {
	const field = "secrets"
	if len(t.Secrets) > maxSecrets {
		return outOfRange(field, "are more than %d: the one in use, and its successor while it is being rotated", maxSecrets)
	}
	for _, s := range t.Secrets {
		b, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(s, "whsec_"))
		if err != nil || !strings.HasPrefix(s, "whsec_") || len(b) < 24 || len(b) > 64 {
			return malformed(field, "one is not whsec_ and 24 to 64 bytes in base64 (make one: echo whsec_$(openssl rand -base64 32))")
		}
	}
	return nil
}

// RetryDelay is how long after the end of attempt n the next one is due: the topic's own list, whose last entry repeats, or 2n-1 minutes.
func (t *Topic) RetryDelay(n int) time.Duration {
	if n < 1 {
		n = 1
	}
	if len(t.Retry) > 0 {
		return t.Retry[min(n, len(t.Retry))-1].Std()
	}
	return time.Duration(2*n-1) * time.Minute
}

// Public is the topic without its secrets.
func (t *Topic) Public() Topic {
	p := *t
	p.Secrets = nil
	return p
}

// ValidTopicPattern checks a token's pattern of topics: *, shop.* or a whole name.
func ValidTopicPattern(p string) error {
	if p == "*" {
		return nil
	}
	if err := ValidTopicName(strings.TrimSuffix(p, "*")); err != nil {
		return malformed("topics", "%.80q is not a pattern: *, a topic's name, or the beginning of names followed by *", p)
	}
	return nil
}

func matchAny(patterns []string, topic string) bool {
	for _, p := range patterns {
		if begin, ok := strings.CutSuffix(p, "*"); p == topic || (ok && strings.HasPrefix(topic, begin)) {
			return true
		}
	}
	return false
}
