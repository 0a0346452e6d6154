package alert

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/internal/registry/seal"
)

// TestAWebhooksAddressIsInNoError: its path is a secret, in whatever form it is written. Errors are logged, stored with
// the message, and shown.
func TestAWebhooksAddressIsInNoError(t *testing.T) {
	t.Parallel()
	away := httptest.NewServer(nil)
	away.Close()
	host := strings.TrimPrefix(away.URL, "http://")
	leads := httptest.NewServer(http.RedirectHandler(away.URL+"/hush", http.StatusFound))
	t.Cleanup(leads.Close)
	m := testMessage(t)
	for _, url := range []string{
		away.URL + "/hush", "HTTP://" + host + "/hush", "http://user:hush@" + host + "/hush",
		"http://user@" + host + "/hush", away.URL + "/hush/é?token=hush", away.URL + "/hush#hush", leads.URL + "/x",
		"http://:/hush", "http://%zz/hush",
	} {
		t.Run("", func(t *testing.T) {
			t.Parallel() // each waits before its second attempt
			hook := Webhook{Name: "x", URL: seal.Text(url), Preset: "slack"}
			err := SendWebhook(t.Context(), http.DefaultClient, hook, m)
			if err == nil || strings.Contains(err.Error(), "hush") || !strings.HasPrefix(err.Error(), "webhook x: ") {
				t.Errorf("%s: %v", url, err)
			}
		})
	}
}

// TestAWebhooksAnswerIsReported in the error, also after a second attempt.
func TestAWebhooksAnswerIsReported(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 400, 404, 429, 500, 503} {
		tries := 0
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			tries++
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, " no_service \n"+strings.Repeat("x", 10_000))
		}))
		hook := Webhook{Name: "x", URL: seal.Text(srv.URL), Preset: "slack"}
		err := SendWebhook(t.Context(), http.DefaultClient, hook, testMessage(t))
		srv.Close()
		want := http.StatusText(status) + ": no_service"
		if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 600 {
			t.Errorf("%d: %v", status, err)
		}
		if want := map[bool]int{true: 2, false: 1}[status == 429 || status >= 500]; tries != want {
			t.Errorf("%d was requested %d times, want %d", status, tries, want)
		}
	}
}
