package registry

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"math"
	"mime"
	"net/http"
	"net/mail"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/idna"

	"github.com/wakecall/wakecall/internal/message"
)

// FieldError describes the error in one field of a request.
type FieldError struct {
	message.Message        // names the value and the remedy
	Field           string // empty: the JSON as a whole
	OutOfRange      bool   // well-formed, but not allowed: 422 rather than 400
}

// Malformed returns a FieldError about a malformed value, with the message of a code.
func Malformed(field, code string, args ...any) error {
	return &FieldError{Message: message.New(code, args...), Field: field}
}

// OutOfRange returns a FieldError about a value that is well-formed, but not allowed.
func OutOfRange(field, code string, args ...any) error {
	return &FieldError{Message: message.New(code, args...), Field: field, OutOfRange: true}
}

// Detail returns the message in English, without the field.
func (e *FieldError) Detail() string { return e.Message.Error() }

func (e *FieldError) Error() string {
	if e.Field == "" {
		return e.Detail()
	}
	return e.Field + ": " + e.Detail()
}

// Refusal implements database.Refusal.
func (e *FieldError) Refusal() {}

var topicName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// ValidTopicName checks the form of the name of a topic or namespace.
func ValidTopicName(name string) error {
	if IsNamespace(name) {
		return validNamespace(name)
	}
	return validName(name)
}

func validName(name string) error {
	if !topicName.MatchString(name) {
		return Malformed("name", "field.name", name)
	}
	return nil
}

// Bounds of a topic's fields.
const (
	MaxTTR       = time.Hour
	MinTTR       = 100 * time.Millisecond
	maxDelay     = 365 * 24 * time.Hour
	MaxRetryWait = 30 * 24 * time.Hour
	maxRetries   = 50
	maxAttempts  = 1000

	// Bounds of pull topics.
	MaxPullTTR      = 24 * time.Hour
	MaxPullAttempts = 65535

	maxInFlight  = 100000
	maxRate      = 100000
	minRate      = 0.0001
	maxURL       = 2048
	maxHeaders   = 32
	maxHeaderSum = 8192
	maxEmails    = 20
	maxSecrets   = 2
	maxRetryIf   = 4096
	maxMediaType = 127
	maxEmail     = 254
)

// CheckRetryIf compiles a retry_if expression. It is set by package app, because package callback evaluates
// expressions.
var CheckRetryIf func(dialect, expression string) error

// Validate checks every field and returns all errors, as joined *FieldErrors.
func (t *Topic) Validate() error {
	return errors.Join(
		ValidTopicName(t.Name), text("title", t.Title, 200), text("owner", t.Owner, 200), t.validURL(),
		oneOf("method", t.Method, "POST", "PUT", "GET"), validType(t.ContentType), t.validHeaders(),
		between("delay", t.Delay, 0, maxDelay), between("ttr", t.TTR, MinTTR, t.MaxTTR()),
		oneOf("priority", t.Priority, "high", "normal", "low"),
		t.validAttempts(), t.validDelivery(), t.validRetry(), t.validRetryIf(), t.validDialect(),
		count("max_in_flight", t.MaxInFlight, 0, maxInFlight), validRate("rate_limit", t.RateLimit), t.PerKey.valid(),
		between("expires_after", t.ExpiresAfter, 0, maxDelay),
		oneOf("on_expiry", t.OnExpiry, ExpiryDead, ExpiryDrop), t.validEmails(), t.validSecrets(), t.Remember.valid(),
		t.validShard(), t.validJobURLs(), t.validCloudEvents(),
		oneOf("durability", t.Durability, DurabilityMemory, DurabilityReplica),
		oneOf("state", t.State, TopicActive, TopicPaused, TopicOffline),
	)
}

func (t *Topic) validShard() error {
	if t.Shard != "" && !topicName.MatchString(t.Shard) {
		return Malformed("shard", "field.shard_name", t.Shard)
	}
	return nil
}

// MaxTTR returns the maximum TTR of the topic's jobs.
func (t *Topic) MaxTTR() time.Duration {
	if t.Delivery == DeliveryPull {
		return MaxPullTTR
	}
	return MaxTTR
}

// AttemptBounds returns the bounds of the topic's max_attempts.
func (t *Topic) AttemptBounds() (fewest, most int) {
	if t.Delivery == DeliveryPull {
		return 0, MaxPullAttempts
	}
	return 1, maxAttempts
}

func (t *Topic) validAttempts() error {
	fewest, most := t.AttemptBounds()
	return count("max_attempts", t.MaxAttempts, fewest, most)
}

func (t *Topic) validDelivery() error {
	if IsNamespace(t.Name) && t.Delivery != DeliveryPull {
		return Malformed("delivery", "field.namespace_pull", t.Name)
	}
	return oneOf("delivery", t.Delivery, DeliveryPush, DeliveryPull)
}

func oneOf[T ~string](field string, v T, allowed ...T) error {
	if slices.Contains(allowed, v) {
		return nil
	}
	names := make([]string, len(allowed))
	for i, a := range allowed {
		names[i] = string(a)
	}
	return OutOfRange(field, "field.one_of", v, strings.Join(names, ", "))
}

func between(field string, d Duration, low, high time.Duration) error {
	if d.Std() < low || d.Std() > high {
		return OutOfRange(field, "field.between", d, Duration(low), days(high))
	}
	return nil
}

// days formats a long bound, followed by its number of days.
func days(d time.Duration) string {
	const day = 24 * time.Hour
	if d > day && d%day == 0 {
		return fmt.Sprintf("%dh (%d days)", d/time.Hour, d/day)
	}
	return d.String()
}

func count(field string, n, low, high int) error {
	if n < low || n > high {
		return OutOfRange(field, "field.between", n, low, high)
	}
	return nil
}

func text(field, s string, most int) error {
	switch n := utf8.RuneCountInString(s); {
	case !utf8.ValidString(s):
		return Malformed(field, "field.utf8")
	case n > most:
		return OutOfRange(field, "field.too_many_characters", n, most)
	case strings.ContainsFunc(s, unicode.IsControl):
		return Malformed(field, "field.control", s)
	}
	return nil
}

func (t *Topic) validURL() error {
	const field = "callback_url"
	s := t.CallbackURL
	if s == "" && (t.Delivery == DeliveryPull || IsNamespace(t.Name)) { // validDelivery rejects other namespaces
		return nil
	}
	if s == "" {
		return Malformed(field, "field.callback_url_required")
	}
	return validURL(field, s)
}

// validURL checks a URL that can be called.
func validURL(field, s string) error {
	if len(s) > maxURL {
		return OutOfRange(field, "field.too_many_bytes", len(s), maxURL)
	}
	blank := func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }
	u, err := url.Parse(s)
	if err != nil || !utf8.ValidString(s) || strings.ContainsFunc(s, blank) {
		// The URL is not in the error: it may contain a password.
		return Malformed(field, "field.url")
	}
	switch {
	case u.User != nil || strings.Contains(u.Opaque, "@"):
		return Malformed(field, "field.url_user")
	case u.Scheme != "http" && u.Scheme != "https":
		return Malformed(field, "field.url_scheme", s)
	case u.Hostname() == "" || !plainASCII(sentHost(u)):
		return Malformed(field, "field.url_host", s)
	case strings.Contains(s, "#"):
		return Malformed(field, "field.url_fragment", s)
	}
	if port, err := strconv.Atoi(u.Port()); u.Port() != "" && (err != nil || port < 1 || port > 65535) {
		return Malformed(field, "field.url_port", u.Port())
	}
	return nil
}

// sentHost returns the host of a URL as DNS has it (UTS 46), with the port. A host that cannot be mapped is unchanged.
func sentHost(u *url.URL) string {
	host, err := idna.Lookup.ToASCII(u.Hostname())
	if plainASCII(u.Host) || err != nil {
		return u.Host
	}
	if u.Port() != "" {
		host += ":" + u.Port()
	}
	return host
}

var notASCII = regexp.MustCompile(`[^\x00-\x7f]+`)

// sentURL returns a valid URL in the form in which it is sent: ASCII only. Endpoints answer 400 to other bytes.
func sentURL(s string) string {
	u, err := url.Parse(s)
	if err != nil || plainASCII(s) && plainASCII(u.Host) {
		return s
	}
	u.Host, u.RawQuery = sentHost(u), notASCII.ReplaceAllStringFunc(u.RawQuery, url.QueryEscape)
	return u.String()
}

func validType(s string) error {
	if s == "json" || s == "form" {
		return nil
	}
	_, _, err := mime.ParseMediaType(s)
	if err != nil || !strings.Contains(s, "/") || len(s) > maxMediaType || !plainASCII(s) {
		return Malformed("content_type", "field.content_type", s)
	}
	return nil
}

// plainASCII reports whether a text is ASCII without control characters.
func plainASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII || unicode.IsControl(r) })
}

var ownHeaders = map[string]bool{
	"host": true, "content-length": true, "content-type": true, "transfer-encoding": true, "connection": true,
	"user-agent": true, "trailer": true, "te": true, "upgrade": true, "keep-alive": true, "expect": true,
	"accept-encoding": true,
}

func (t *Topic) validHeaders() error { return ValidHeaders(t.Headers) }

// ValidHeaders checks the headers of a topic, or of one job.
func ValidHeaders(headers map[string]string) error {
	const field = "headers"
	if len(headers) > maxHeaders {
		return OutOfRange(field, "field.too_many", len(headers), maxHeaders)
	}
	sum := 0
	seen := map[string]bool{}
	for _, k := range slices.Sorted(maps.Keys(headers)) {
		name := strings.ToLower(k)
		if err := validHeader(k, headers[k]); err != nil {
			return err
		}
		if seen[name] {
			return Malformed(field, "field.header_twice", k)
		}
		seen[name] = true
		sum += len(k) + len(headers[k])
	}
	if sum > maxHeaderSum {
		return OutOfRange(field, "field.headers_bytes", sum, maxHeaderSum)
	}
	return nil
}

// validHeader omits the value from its errors, because it may be a secret.
func validHeader(k, v string) error {
	const field = "headers"
	name := strings.ToLower(k)
	switch {
	case !httpguts.ValidHeaderFieldName(k):
		return Malformed(field, "field.header_name", k)
	case ownHeaders[name] || strings.HasPrefix(name, "webhook-") || strings.HasPrefix(name, "wakecall-"):
		return Malformed(field, "field.header_reserved", k)
	case !httpguts.ValidHeaderFieldValue(v) || !plainASCII(strings.ReplaceAll(v, "\t", "")):
		return Malformed(field, "field.header_value", k)
	}
	return nil
}

func (t *Topic) validRetry() error {
	const field = "retry"
	if len(t.Retry) > maxRetries {
		return OutOfRange(field, "field.too_many_retries", len(t.Retry), maxRetries)
	}
	for i, d := range t.Retry {
		if d.Std() < 0 || d.Std() > MaxRetryWait {
			return OutOfRange(field, "field.retry_wait", i+1, d, days(MaxRetryWait))
		}
	}
	return nil
}

func (t *Topic) validRetryIf() error {
	const field = "retry_if"
	switch {
	case len(t.RetryIf) > maxRetryIf:
		return OutOfRange(field, "field.too_many_bytes", len(t.RetryIf), maxRetryIf)
	case !utf8.ValidString(t.RetryIf):
		return Malformed(field, "field.utf8")
	case t.RetryIf == "" || CheckRetryIf == nil:
		return nil
	}
	if err := CheckRetryIf(t.Dialect, t.RetryIf); err != nil {
		return Malformed(field, "", err)
	}
	return nil
}

// validDialect rejects methods that old systems do not use: they call with POST or GET.
func (t *Topic) validDialect() error {
	if t.Dialect != DialectOwn && t.Method == http.MethodPut {
		return OutOfRange("method", "field.put_dialect", t.Dialect)
	}
	return oneOf("dialect", t.Dialect, Dialects...)
}

func validRate(field string, rate float64) error {
	if math.IsNaN(rate) || rate < 0 || rate > maxRate || (rate > 0 && rate < minRate) {
		return OutOfRange(field, "field.rate_limit", rate, minRate, maxRate)
	}
	return nil
}

func (t *Topic) validEmails() error {
	const field = "emails"
	if len(t.Emails) > maxEmails {
		return OutOfRange(field, "field.too_many", len(t.Emails), maxEmails)
	}
	for _, e := range t.Emails {
		a, err := mail.ParseAddress(e)
		if err != nil || a.Address != e || len(e) > maxEmail || strings.ContainsFunc(e, unicode.IsControl) {
			return Malformed(field, "field.email", e)
		}
	}
	return nil
}

func (t *Topic) validSecrets() error {
	const field = "secrets"
	if len(t.Secrets) > maxSecrets {
		return OutOfRange(field, "field.too_many_secrets", len(t.Secrets), maxSecrets)
	}
	for i, s := range t.Secrets {
		if !validSecret(s) {
			return Malformed(field, "field.secret", i+1)
		}
	}
	return nil
}

func validSecret(s string) bool {
	text, ok := strings.CutPrefix(s, "whsec_")
	if !ok || strings.ContainsAny(text, "\r\n") { // the decoder ignores line breaks
		return false
	}
	b, err := base64.StdEncoding.DecodeString(text)
	return err == nil && len(b) >= 24 && len(b) <= 64
}

// ValidTopicPattern checks a token's topic pattern: *, shop.* or a whole name.
func ValidTopicPattern(p string) error {
	if p == "*" {
		return nil
	}
	if begin := strings.TrimSuffix(p, "*"); len(begin) > MaxMemberName || !memberName.MatchString(begin) {
		return Malformed("topics", "field.pattern", p)
	}
	return nil
}

// MatchesPattern reports whether a pattern equals a topic's name, or is a prefix of it followed by *.
func MatchesPattern(pattern, topic string) bool {
	begin, open := strings.CutSuffix(pattern, "*")
	return pattern == topic || open && strings.HasPrefix(topic, begin)
}

func matchAny(patterns []string, topic string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return MatchesPattern(p, topic) })
}
