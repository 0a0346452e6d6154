package page

import (
	"log/slog"
	"testing"
	"time"
)

func TestRedirectsStayHere(t *testing.T) {
	t.Parallel()
	p := &Pages{Options: Options{BasePath: "/w"}}
	for to, want := range map[string]string{
		"/w/topics?a=b": "/topics?a=b", "/topics": "/x", "//evil": "/x", "https://evil/": "/x", `/\evil`: "/x",
		"":    "/x",
		"/wx": "/x", "/w//evil": "/x", "/w/../evil": "/x", "/w/%2E%2e/evil": "/x", "/w/a/.%2e/..": "/x",
		"/w/topics/t/jobs/..%2Fa%2F..": "/topics/t/jobs/..%2Fa%2F..", "/w/topics/a..b": "/topics/a..b",
	} {
		if got := p.Local(to, "/x"); got != want {
			t.Errorf("local(%q) = %q, want %q", to, got, want)
		}
	}
}

func TestURLsBreakAtSlashes(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"http://h:1/a/b?c=d&e=f": "http://h:1/<wbr>a/<wbr>b<wbr>?c=d<wbr>&amp;e=f", `/"><script>`: "/<wbr>&#34;&gt;&lt;script&gt;",
	} {
		if got := string(breaks(url)); got != want {
			t.Errorf("breaks(%q) = %s, want %s", url, got, want)
		}
	}
}

func TestEveryPageCanBeParsedInEveryLanguage(t *testing.T) {
	t.Parallel()
	texts, err := LoadTexts()
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(Options{Texts: texts, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	for code, templates := range p.templates {
		if err := templates.ParseAll(); err != nil {
			t.Errorf("%s: %v", code, err)
		}
	}
}
