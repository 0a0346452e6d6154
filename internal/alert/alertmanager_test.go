package alert

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/smtptest"
)

// receivingAlertmanager checks requests as an Alertmanager's POST /api/v2/alerts does, and records the alerts.
type receivingAlertmanager struct {
	*httptest.Server
	t *testing.T

	mu    sync.Mutex
	fails bool
	posts int
	now   map[string]gettable // by name and labels
}

type gettable struct {
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"`
	GeneratorURL string            `json:"generatorURL"`
}

func startAlertmanager(t *testing.T) *receivingAlertmanager {
	m := &receivingAlertmanager{t: t, now: map[string]gettable{}}
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Close)
	return m
}

func (m *receivingAlertmanager) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.posts++
	if r.Method != http.MethodPost || r.URL.Path != "/am/api/v2/alerts" ||
		r.Header.Get("Content-Type") != "application/json" {
		m.t.Errorf("it got %s %s with %s", r.Method, r.URL, r.Header)
	}
	if m.fails {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "starting")
		return
	}
	var list []gettable
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&list); err != nil || len(list) == 0 {
		m.t.Errorf("it got %+v, %v", list, err)
	}
	for _, a := range list {
		u, err := url.Parse(a.GeneratorURL)
		if a.Labels["alertname"] == "" || a.StartsAt.IsZero() || a.StartsAt.After(a.EndsAt) || err != nil ||
			!u.IsAbs() {
			m.t.Errorf("it got the alert %+v", a)
		}
		m.now[a.Labels["alertname"]+" "+a.Labels["topic"]+a.Labels["shard"]+" "+a.Labels["severity"]] = a
	}
}

func (m *receivingAlertmanager) fail(fails bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fails = fails
}

// state returns an alert and whether it fires.
func (m *receivingAlertmanager) state(name string) (a gettable, fires bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a = m.now[name]
	return a, a.EndsAt.After(time.Now())
}

// TestAnAlertmanagerGetsEachCause when it begins and when it ends.
func TestAnAlertmanagerGetsEachCause(t *testing.T) {
	t.Parallel()
	m := startAlertmanager(t)
	settings := mailTo(smtptest.Start(t))
	h := playFrom(t, "h1", newStore(t), &stage{settings: settings, alertmanager: m.URL + "/am/"})
	paused := Finding{Topic: "a", Cause: Cause{Kind: "paused", Severity: Info, N: 7}}
	h.wrong(down, fails("a"), isLate("a"), paused)
	const shard, fails, late = "WakecallShardDown a critical", "WakecallBreaker a critical", "WakecallLate a warning"
	firing := func(want ...string) func() bool {
		return func() bool {
			n := 0
			for _, name := range []string{shard, fails, late} {
				if _, fires := m.state(name); fires {
					n++
				}
			}
			for _, name := range want {
				if _, fires := m.state(name); !fires {
					return false
				}
			}
			return n == len(want)
		}
	}
	eventually(t, "the beginning", firing(shard, fails, late))
	a, _ := m.state(shard)
	if a.Annotations["summary"] != "shard a is down" ||
		!strings.Contains(a.Annotations["description"], "connection <refused>") ||
		a.GeneratorURL != "http://admin.example/shards" || a.Labels["shard"] != "a" || len(a.Labels) != 3 {
		t.Errorf("an alert is %+v", a)
	}
	if left := time.Until(a.EndsAt); left < resolveAfter-time.Minute || left > resolveAfter {
		t.Errorf("it is resolved by itself after %s", left)
	}
	if _, known := m.now["WakecallPaused a info"]; known {
		t.Error("information is sent")
	}
	h.wrong(isLate("a"))
	eventually(t, "the end of two", firing(late))
	if again, _ := m.state(shard); !again.StartsAt.Equal(a.StartsAt) {
		t.Errorf("it began at %s, and its end says %s", a.StartsAt, again.StartsAt)
	}
	h.wrong()
	eventually(t, "the end", firing())
}

// TestAnAlertmanagerGetsWhatItMissed: after an error everything is sent again, ends included, and what lasts again
// and again.
func TestAnAlertmanagerGetsWhatItMissed(t *testing.T) {
	t.Parallel()
	srv := startAlertmanager(t)
	var errs []error
	report := func(err error) { errs = append(errs, err) }
	m := newAlertmanager(srv.URL+"/am", "http://admin.example", http.DefaultClient, report)
	var open []*Alert
	at := time.Now()
	set := func(list ...Finding) {
		open = nil
		for _, f := range list {
			c := f.Cause
			c.BeganAt = at.Add(-time.Hour)
			open = append(open, &Alert{Key: f.Key(), Topic: f.Topic, Shard: f.Shard, Causes: []Cause{c}})
		}
		m.update(t.Context(), open, english(t)("en"), at)
		m.wait()
	}
	again := func(after time.Duration) {
		at = at.Add(after)
		m.update(t.Context(), open, english(t)("en"), at)
		m.wait()
	}
	set(down)
	srv.fail(true)
	set(isLate("b"))
	if len(errs) != 2 || errs[0] != nil || errs[1] == nil ||
		!strings.Contains(errs[1].Error(), "503 Service Unavailable: starting") {
		t.Errorf("the errors are %v", errs)
	}
	srv.fail(false)
	again(resendAfter)
	if _, fires := srv.state("WakecallShardDown a critical"); fires {
		t.Error("an end is lost")
	}
	late, fires := srv.state("WakecallLate b warning")
	if !fires {
		t.Error("a beginning is lost")
	}
	posts := srv.posts
	again(resendEvery - time.Second)
	if srv.posts > posts {
		t.Error("it is sent again before a minute has passed")
	}
	again(time.Second)
	if again, _ := srv.state("WakecallLate b warning"); !again.EndsAt.After(late.EndsAt) {
		t.Error("what lasts is not sent again")
	}
	if len(m.alerts) != 1 {
		t.Errorf("it still has %+v", m.alerts)
	}
	set(down, isLate("b"))
	if _, fires := srv.state("WakecallShardDown a critical"); !fires {
		t.Error("an alert that returns is not sent")
	}
}

// TestAnAlertmanagersPasswordIsInNoError.
func TestAnAlertmanagersPasswordIsInNoError(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(nil)
	srv.Close()
	m := newAlertmanager(strings.Replace(srv.URL, "http://", "http://ann:hush@", 1), "", http.DefaultClient, nil)
	if err := m.post(t.Context(), nil); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("connection refused: %v", err)
	}
}
