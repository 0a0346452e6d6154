package page

import "testing"

func TestRedirectsStayHere(t *testing.T) {
	t.Parallel()
	b := &Base{Options: Options{BasePath: "/w"}}
	for to, want := range map[string]string{
		"/w/topics?a=b": "/topics?a=b", "/topics": "/x", "//evil": "/x", "https://evil/": "/x", `/\evil`: "/x", "": "/x",
		"/wx": "/x", "/w//evil": "/x", "/w/../evil": "/x", "/w/%2E%2e/evil": "/x", "/w/a/.%2e/..": "/x",
		"/w/topics/t/jobs/..%2Fa%2F..": "/topics/t/jobs/..%2Fa%2F..", "/w/topics/a..b": "/topics/a..b",
	} {
		if got := b.Local(to, "/x"); got != want {
			t.Errorf("local(%q) = %q, want %q", to, got, want)
		}
	}
}
