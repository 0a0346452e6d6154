package registry

import (
	"path/filepath"
	"strings"
	"testing"
)

// A callback URL is stored as it is sent: endpoints refuse other bytes, and DNS knows only the mapped host.
func TestCallbackURLIsStoredAsItIsSent(t *testing.T) {
	t.Parallel()
	for from, to := range map[string]string{
		"https://shop.example/a?b=c":                "https://shop.example/a?b=c",
		"https://Shop.example/a%2Fb?x=%zz&y=a+b":    "https://Shop.example/a%2Fb?x=%zz&y=a+b",
		"https://shop.example/cb?city=Zürich&a=%20": "https://shop.example/cb?city=Z%C3%BCrich&a=%20",
		"https://BÜCHER.example:8443/straße?":       "https://xn--bcher-kva.example:8443/stra%C3%9Fe?",
		"https://例え。テスト/":                           "https://xn--r8jz45g.xn--zckzah/",
		"http://b%C3%BCcher.example/":               "http://xn--bcher-kva.example/",
		"http://my_service:8080/":                   "http://my_service:8080/",
		"http://[::1]:8080/ü":                       "http://[::1]:8080/%C3%BC",
	} {
		if got := sentURL(from); got != to {
			t.Errorf("%s is stored as %s, want %s", from, got, to)
		}
	}
	const typed, stored = "https://bücher.example/?x=ü", "https://xn--bcher-kva.example/?x=%C3%BC"
	file, err := DecodeTopic("shop.close", []byte(`{"callback_url":"`+typed+`"}`))
	if err != nil || file.CallbackURL != stored {
		t.Fatalf("a file's topic has %+v, %v", file, err)
	}
	r := open(t, Options{DSN: "sqlite:" + filepath.Join(t.TempDir(), "r.db")})
	x := topic("shop.close")
	x.CallbackURL = typed
	put(t, r, x)
	if got := r.Snapshot().Topics.Get("shop.close").CallbackURL; got != stored {
		t.Errorf("stored %s, want %s", got, stored)
	}
	if done, err := r.PutTopics(t.Context(), "me", []Topic{x}); err != nil || done[0] != TopicUnchanged {
		t.Errorf("put again: %v, %v", done, err)
	}

	topic := NewTopic("shop.close")
	for _, refused := range []string{"https://a\u200d\u200db\u2f00.example/", "https://xn--ü.example/"} {
		if topic.CallbackURL = refused; topic.Validate() == nil {
			t.Errorf("%q is accepted", refused)
		}
	}
	for _, hidden := range []string{"ann:hush@shop.example/x", "ftp://ann:hush@shop.example/", "http://ann:hush@/"} {
		topic.CallbackURL = hidden
		if err := topic.Validate(); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", hidden, err)
		}
	}
}

func TestSealedHeadersAreKnown(t *testing.T) {
	t.Parallel()
	topic := NewTopic("shop.close")
	topic.CallbackURL, topic.Headers = "https://shop.example/", map[string]string{"X-Api-Key": "k", "X-Shop": "7"}
	if !topic.Seals("x-api-KEY") || topic.Seals("x-shop") || topic.Seals("Authorization") {
		t.Error("only the topic's own credentials are sealed")
	}
	if err := topic.Validate(); err != nil {
		t.Error(err)
	}
	topic.Headers["accept-ENCODING"] = "gzip"
	if topic.Validate() == nil {
		t.Error("a topic may ask for compressed answers")
	}
}
