package registry

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/dbtest"
)

func secretOf(bytes int) string {
	return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", bytes)))
}

func headers(n int) map[string]string {
	h := map[string]string{}
	for i := range n {
		h[fmt.Sprint("X-", i)] = ""
	}
	return h
}

func repeat[T any](v T, n int) []T {
	var list []T
	for range n {
		list = append(list, v)
	}
	return list
}

func TestValidTopics(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(*Topic){
		"nothing else":           func(*Topic) {},
		"the longest name":       func(x *Topic) { x.Name = "a" + strings.Repeat("-", 63) },
		"a name of all kinds":    func(x *Topic) { x.Name = "0.a_b-c" },
		"the longest title":      func(x *Topic) { x.Title = strings.Repeat("ä", 200) },
		"the longest URL":        func(x *Topic) { x.CallbackURL = "http://h/" + strings.Repeat("a", maxURL-9) },
		"a URL with everything":  func(x *Topic) { x.CallbackURL = "https://h.example:8443/a/b%20c?d=e&f=g" },
		"an IPv6 address":        func(x *Topic) { x.CallbackURL = "http://[::1]:80/" },
		"PUT":                    func(x *Topic) { x.Method = "PUT" },
		"GET":                    func(x *Topic) { x.Method = "GET" },
		"a form":                 func(x *Topic) { x.ContentType = "form" },
		"a media type":           func(x *Topic) { x.ContentType = "text/xml; charset=utf-8" },
		"32 headers":             func(x *Topic) { x.Headers = headers(32) },
		"a token":                func(x *Topic) { x.Headers = map[string]string{"Authorization": "Bearer a\tb"} },
		"the longest delay":      func(x *Topic) { x.Delay = Duration(maxDelay) },
		"the shortest TTR":       func(x *Topic) { x.TTR = Duration(MinTTR) },
		"the longest TTR":        func(x *Topic) { x.TTR = Duration(MaxTTR) },
		"one attempt":            func(x *Topic) { x.MaxAttempts = 1 },
		"the most attempts":      func(x *Topic) { x.MaxAttempts = 1000 },
		"the longest retry list": func(x *Topic) { x.Retry = repeat(Duration(MaxRetryWait), 50) },
		"a retry at once":        func(x *Topic) { x.Retry = []Duration{0} },
		"the most in flight":     func(x *Topic) { x.MaxInFlight = 100000 },
		"the highest rate":       func(x *Topic) { x.RateLimit = 100000 },
		"a low rate":             func(x *Topic) { x.RateLimit = 0.001 },
		"mail addresses":         func(x *Topic) { x.Emails = []string{"a@b.example", "c+d@e.example"} },
		"the shortest secret":    func(x *Topic) { x.Secrets = []string{secretOf(24)} },
		"two secrets":            func(x *Topic) { x.Secrets = []string{secretOf(64), oneSecret} },
		"offline":                func(x *Topic) { x.State = TopicOffline },
	} {
		x := topic("t")
		change(&x)
		if err := x.Validate(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestInvalidTopics(t *testing.T) {
	t.Parallel()
	const bad, out = false, true
	for _, c := range []struct {
		field      string
		outOfRange bool
		says       string // the error, or the remedy
		change     func(*Topic)
	}{
		{"name", bad, "1 to 64", func(x *Topic) { x.Name = "" }},
		{"name", bad, "Shop", func(x *Topic) { x.Name = "Shop" }},
		{"name", bad, "-a", func(x *Topic) { x.Name = "-a" }},
		{"name", bad, "1 to 64", func(x *Topic) { x.Name = strings.Repeat("a", 65) }},
		{"name", bad, `a\n`, func(x *Topic) { x.Name = "a\n" }},
		{"title", out, "201 characters; the limit is 200", func(x *Topic) { x.Title = strings.Repeat("ä", 201) }},
		{"title", bad, "control character", func(x *Topic) { x.Title = "a\x00" }},
		{"title", bad, "control character", func(x *Topic) { x.Title = "a\u0085" }},
		{"title", bad, "valid UTF-8", func(x *Topic) { x.Title = "\xff" }},
		{"owner", out, "limit is 200", func(x *Topic) { x.Owner = strings.Repeat("a", 201) }},
		{"owner", bad, "control character", func(x *Topic) { x.Owner = "a\nb" }},
		{"callback_url", bad, "required", func(x *Topic) { x.CallbackURL = "" }},
		{"callback_url", bad, "ftp", func(x *Topic) { x.CallbackURL = "ftp://h/" }},
		{"callback_url", bad, "http://", func(x *Topic) { x.CallbackURL = "h/path" }},
		{"callback_url", bad, "no host", func(x *Topic) { x.CallbackURL = "http:///x" }},
		{"callback_url", bad, "no host", func(x *Topic) { x.CallbackURL = "http:h" }},
		{"callback_url", bad, "no host", func(x *Topic) { x.CallbackURL = "http://:80/" }},
		{"callback_url", bad, "Authorization", func(x *Topic) { x.CallbackURL = "http://u:hidden@h/" }},
		{"callback_url", bad, "must be a URL", func(x *Topic) { x.CallbackURL = "http://u:hidden@h:x/" }},
		{"callback_url", bad, "fragment", func(x *Topic) { x.CallbackURL = "http://h/#a" }},
		{"callback_url", bad, "fragment", func(x *Topic) { x.CallbackURL = "http://h/#" }},
		{"callback_url", bad, "65535", func(x *Topic) { x.CallbackURL = "http://h:65536/" }},
		{"callback_url", bad, "65535", func(x *Topic) { x.CallbackURL = "http://h:0/" }},
		{"callback_url", bad, "must be a URL", func(x *Topic) { x.CallbackURL = "http://h/a b" }},
		{"callback_url", bad, "must be a URL", func(x *Topic) { x.CallbackURL = "http://h/\n" }},
		{"callback_url", bad, "must be a URL", func(x *Topic) { x.CallbackURL = "http://h/\xff" }},
		{"callback_url", bad, "must be a URL", func(x *Topic) { x.CallbackURL = "http://h/%zz" }},
		{"callback_url", out, "2049 bytes; the limit is 2048",
			func(x *Topic) { x.CallbackURL = "http://h/" + strings.Repeat("a", maxURL-8) }},
		{"method", out, "POST, PUT, GET", func(x *Topic) { x.Method = "DELETE" }},
		{"method", out, "POST, PUT, GET", func(x *Topic) { x.Method = "post" }},
		{"content_type", bad, "text/plain", func(x *Topic) { x.ContentType = "" }},
		{"content_type", bad, "text/plain", func(x *Topic) { x.ContentType = "xml" }},
		{"content_type", bad, "text/plain", func(x *Topic) { x.ContentType = "text/xml;\r\nX: y" }},
		{"content_type", bad, "text/plain", func(x *Topic) { x.ContentType = "text/" + strings.Repeat("a", 128) }},
		{"headers", bad, "a b", func(x *Topic) { x.Headers = map[string]string{"a b": "c"} }},
		{"headers", bad, "not a header name", func(x *Topic) { x.Headers = map[string]string{"": "c"} }},
		{"headers", bad, "not a header name", func(x *Topic) { x.Headers = map[string]string{"Ä": "c"} }},
		{"headers", bad, `the value of "X-A"`,
			func(x *Topic) { x.Headers = map[string]string{"X-A": "hidden\r\nd: e"} }},
		{"headers", bad, `the value of "X-A"`, func(x *Topic) { x.Headers = map[string]string{"X-A": "\x00"} }},
		{"headers", bad, `the value of "X-A"`, func(x *Topic) { x.Headers = map[string]string{"X-A": "ä"} }},
		{"headers", bad, "duplicate", func(x *Topic) { x.Headers = map[string]string{"X-A": "1", "x-a": "2"} }},
		{"headers", bad, "set by Wakecall", func(x *Topic) { x.Headers = map[string]string{"Host": "h"} }},
		{"headers", bad, "set by Wakecall", func(x *Topic) { x.Headers = map[string]string{"content-LENGTH": "1"} }},
		{"headers", bad, "set by Wakecall",
			func(x *Topic) { x.Headers = map[string]string{"Transfer-Encoding": "chunked"} }},
		{"headers", bad, "set by Wakecall", func(x *Topic) { x.Headers = map[string]string{"Connection": "close"} }},
		{"headers", bad, "set by Wakecall", func(x *Topic) { x.Headers = map[string]string{"Webhook-Id": "c"} }},
		{"headers", bad, "set by Wakecall", func(x *Topic) { x.Headers = map[string]string{"WAKECALL-X": "c"} }},
		{"headers", out, "33 entries; the limit is 32", func(x *Topic) { x.Headers = headers(33) }},
		{"headers", out, "limit is 8192",
			func(x *Topic) { x.Headers = map[string]string{"X": strings.Repeat("a", 8192)} }},
		{"delay", out, "between 0s", func(x *Topic) { x.Delay = Duration(-time.Second) }},
		{"delay", out, "365 days", func(x *Topic) { x.Delay = Duration(maxDelay + 1) }},
		{"ttr", out, "between 100ms and 1h0m0s, not 0s", func(x *Topic) { x.TTR = 0 }},
		{"ttr", out, "100ms", func(x *Topic) { x.TTR = Duration(MinTTR - 1) }},
		{"ttr", out, "1h0m0s", func(x *Topic) { x.TTR = Duration(MaxTTR + 1) }},
		{"priority", out, "high, normal, low", func(x *Topic) { x.Priority = "urgent" }},
		{"priority", out, "high, normal, low", func(x *Topic) { x.Priority = "" }},
		{"max_attempts", out, "between 1 and 1000, not 0", func(x *Topic) { x.MaxAttempts = 0 }},
		{"max_attempts", out, "1001", func(x *Topic) { x.MaxAttempts = 1001 }},
		{"retry", out, "51 entries; the limit is 50", func(x *Topic) { x.Retry = repeat(Duration(1), 51) }},
		{"retry", out, "entry 2", func(x *Topic) { x.Retry = []Duration{1, -1} }},
		{"retry", out, "30 days", func(x *Topic) { x.Retry = []Duration{Duration(MaxRetryWait + 1)} }},
		{"retry_if", out, "limit is 4096", func(x *Topic) { x.RetryIf = strings.Repeat("a", 4097) }},
		{"retry_if", bad, "valid UTF-8", func(x *Topic) { x.RetryIf = "\xff" }},
		{"max_in_flight", out, "between 0 and 100000, not -1", func(x *Topic) { x.MaxInFlight = -1 }},
		{"max_in_flight", out, "100001", func(x *Topic) { x.MaxInFlight = 100001 }},
		{"durability", out, "one of memory, replica", func(x *Topic) { x.Durability = "raid" }},
		{"rate_limit", out, "-1", func(x *Topic) { x.RateLimit = -1 }},
		{"rate_limit", out, "NaN", func(x *Topic) { x.RateLimit = math.NaN() }},
		{"rate_limit", out, "Inf", func(x *Topic) { x.RateLimit = math.Inf(1) }},
		{"rate_limit", out, "100000", func(x *Topic) { x.RateLimit = 100001 }},
		{"rate_limit", out, "0.0001", func(x *Topic) { x.RateLimit = 1e-9 }},
		{"expires_after", out, "-1s", func(x *Topic) { x.ExpiresAfter = Duration(-time.Second) }},
		{"expires_after", out, "365 days", func(x *Topic) { x.ExpiresAfter = Duration(maxDelay + 1) }},
		{"emails", bad, "nobody", func(x *Topic) { x.Emails = []string{"a@b.example", "nobody"} }},
		{"emails", bad, "Anna", func(x *Topic) { x.Emails = []string{"Anna <a@b.example>"} }},
		{"emails", bad, "not a mail address",
			func(x *Topic) { x.Emails = []string{"a@b.example\r\nBcc: c@d.example"} }},
		{"emails", bad, "not a mail address",
			func(x *Topic) { x.Emails = []string{strings.Repeat("a", 250) + "@b.example"} }},
		{"emails", out, "limit is 20", func(x *Topic) { x.Emails = repeat("a@b.example", 21) }},
		{"secrets", bad, "secret 2", func(x *Topic) { x.Secrets = []string{oneSecret, "hidden"} }},
		{"secrets", bad, "openssl rand", func(x *Topic) { x.Secrets = []string{secretOf(23)} }},
		{"secrets", bad, "24 to 64", func(x *Topic) { x.Secrets = []string{secretOf(65)} }},
		{"secrets", bad, "base64", func(x *Topic) { x.Secrets = []string{"whsec_hidden!hidden!hidden!hidden!hid"} }},
		{"secrets", bad, "base64", func(x *Topic) { x.Secrets = []string{oneSecret + "\n"} }},
		{"secrets", out, "limit is 2", func(x *Topic) { x.Secrets = repeat(oneSecret, 3) }},
		{"state", out, "active, paused, offline", func(x *Topic) { x.State = "gone" }},
	} {
		x := topic("t")
		c.change(&x)
		err := x.Validate()
		var fe *FieldError
		if !errors.As(err, &fe) || fe.Field != c.field || fe.OutOfRange != c.outOfRange ||
			!strings.Contains(fe.Detail(), c.says) {
			t.Errorf("%s, %s: %v", c.field, c.says, err)
			continue
		}
		if strings.Contains(err.Error(), "hidden") || len(err.Error()) > 300 {
			t.Errorf("%s, %s: the error shows a secret: %v", c.field, c.says, err)
		}
	}
}

func TestADialectHasItsOwnConditionAndMethods(t *testing.T) {
	Dialects = append(Dialects, "phpdq")
	defer func() { Dialects = Dialects[:1] }()
	CheckRetryIf = func(dialect, source string) error {
		if dialect != source {
			return fmt.Errorf("compiled as %s", dialect)
		}
		return nil
	}
	defer func() { CheckRetryIf = nil }()
	topic := NewTopic("a")
	topic.CallbackURL, topic.Dialect, topic.RetryIf = "http://h/", "phpdq", "phpdq"
	if err := topic.Validate(); err != nil {
		t.Error(err)
	}
	topic.Method = "PUT"
	if err := topic.Validate(); err == nil || !strings.Contains(err.Error(), "method: PUT") {
		t.Errorf("PUT: %v", err)
	}
	topic.Method, topic.Dialect = "POST", "perl"
	if err := topic.Validate(); err == nil || !strings.Contains(err.Error(), "dialect: ") {
		t.Errorf("another dialect: %v", err)
	}
}

func TestAllErrorsAreReported(t *testing.T) {
	t.Parallel()
	x := topic("t")
	x.TTR, x.Method, x.Secrets = 0, "BREW", []string{"x"}
	err := x.Validate()
	for _, field := range []string{"ttr: ", "method: ", "secrets: "} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s is not in: %v", field, err)
		}
	}
}

func TestRetryIfIsCompiled(t *testing.T) {
	CheckRetryIf = func(_, source string) error { return fmt.Errorf("%q: mistake at 1:4", source) }
	defer func() { CheckRetryIf = nil }()
	x := topic("t")
	if err := x.Validate(); err != nil {
		t.Error(err)
	}
	x.RetryIf = "res."
	var fe *FieldError
	if err := x.Validate(); !errors.As(err, &fe) || fe.Field != "retry_if" || !strings.Contains(fe.Detail(), "1:4") {
		t.Error(err)
	}
}

func TestTokensAndPatternsAreValidated(t *testing.T) {
	t.Parallel()
	r := open(t, Options{DSN: dbtest.SQLite(t)})
	push, all := []Right{RightPush}, []string{"*"}
	token := func(name string, rights []Right, topics []string) error {
		_, _, err := r.CreateToken(t.Context(), "me", name, rights, topics, nil)
		return err
	}
	for _, c := range []struct {
		field string
		err   error
	}{
		{"name", token("", push, all)}, {"name", token(" ", push, all)}, {"name", token("a\n", push, all)},
		{"name", token(strings.Repeat("a", 101), push, all)},
		{"rights", token("a", nil, all)}, {"rights", token("a", []Right{"root"}, all)},
		{"rights", token("a", repeat(RightPush, 2), all)},
		{"topics", token("a", push, nil)}, {"topics", token("a", push, []string{""})},
		{"topics", token("a", push, []string{"**"})},
		{"topics", token("a", push, []string{"*.close"})}, {"topics", token("a", push, []string{"a\nb"})},
		{"topics", token("a", push, repeat("*", 101))},
	} {
		var fe *FieldError
		if !errors.As(c.err, &fe) || fe.Field != c.field {
			t.Errorf("%s: %v", c.field, c.err)
		}
	}
	for pattern, ok := range map[string]bool{"*": true, "shop.*": true, "shop*": true, "shop.close": true,
		"Shop.*": false,
		"a*b":    false, "": false} {
		if err := ValidTopicPattern(pattern); (err == nil) != ok {
			t.Errorf("%q: %v", pattern, err)
		}
	}
}

func TestRetryDelays(t *testing.T) {
	t.Parallel()
	x := topic("t")
	for n, want := range map[int]time.Duration{0: time.Minute, 1: time.Minute, 2: 3 * time.Minute, 3: 5 * time.Minute,
		10: 19 * time.Minute} {
		if got := x.RetryDelay(n); got != want {
			t.Errorf("after attempt %d: %v", n, got)
		}
	}
	x.Retry = []Duration{Duration(time.Second), Duration(time.Minute)}
	for n, want := range map[int]time.Duration{-1: time.Second, 1: time.Second, 2: time.Minute, 9: time.Minute} {
		if got := x.RetryDelay(n); got != want {
			t.Errorf("the topic's own list, after attempt %d: %v", n, got)
		}
	}
}

func TestPublicHasNoSecrets(t *testing.T) {
	t.Parallel()
	x := topic("t")
	x.Secrets = []string{oneSecret}
	b, err := json.Marshal(x.Public())
	if err != nil || strings.Contains(string(b), "secret") || len(x.Secrets) != 1 {
		t.Errorf("%s, %v", b, err)
	}
}
