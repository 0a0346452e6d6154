package admintest

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/alert"
	"github.com/wakecall/wakecall/internal/bulk"
	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/observe/activity"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/test/wait"
)

// Site is an admin that serves a test.
type Site struct {
	*testing.T
	Admin    *admin.Admin
	Queue    *Queue // the admin's queue, unless an option replaces it
	Registry Registry
	URL      string
	Client   *http.Client
}

// Open serves an admin; change may alter its options. Pages take their time to search and count, so that tests pass on
// a busy machine.
func Open(t *testing.T, change func(*admin.Options)) *Site {
	t.Helper()
	s := &Site{T: t, Queue: &Queue{}, Registry: openRegistry(t), Client: NewClient()}
	o := admin.Options{
		Queue: s.Queue, Registry: s.Registry.Registry, Editor: s.Registry,
		Schedules: &Schedules{Registry: s.Registry.Registry}, Accounts: s.Registry.Store,
		Sessions: account.NewSessions(s.Registry.DB()), Alerts: alert.NewStore(s.Registry.DB()),
		Master: idleMaster{}, Config: conf.Default(), History: noHistory{}, Activity: NoActivity{}, Caller: noCalls{},
		Web: http.DefaultClient, Version: "test", Host: "localhost", ShutdownTimeout: 30 * time.Second,
		Log: slog.New(slog.DiscardHandler), Now: time.Now, Patience: time.Minute,
	}
	if change != nil {
		change(&o)
	}
	o.Tasks = bulk.NewRunner(bulk.Options{
		Storage: bulk.NewStore(s.Registry.Registry), Queue: o.Queue, Registry: o.Registry, Dir: t.TempDir(), Host: o.Host,
		Log: o.Log, Now: o.Now, PollEvery: time.Millisecond,
	})
	var err error
	s.Admin, err = admin.New(o)
	Must(t, err)
	srv := httptest.NewServer(s.Admin)
	t.Cleanup(func() {
		s.Admin.Close()
		srv.Close()
	})
	s.URL = srv.URL + s.Admin.BasePath
	return s
}

// Shop serves an admin on a real queue, with the topic shop.close.
func Shop(t *testing.T) (*Site, *queue.Queue) {
	t.Helper()
	q := RealQueue(t)
	s := Open(t, func(o *admin.Options) {
		o.Queue = observe.Figures{Queue: q}
		o.Activity = activity.NewReader(observe.Figures{Queue: q})
		o.APIURL = "http://127.0.0.1:6789"
	})
	s.AddTopic("shop.close")
	return s, q
}

// OpenDead serves an admin that carries out tasks on a queue of dead jobs, to an operator.
func OpenDead(t *testing.T, q *DeadQueue) *Site {
	t.Helper()
	s := Open(t, func(o *admin.Options) { o.Queue = q }).As("ops")
	for name := range q.Dead {
		s.AddTopic(name)
	}
	t.Cleanup(s.Work(context.WithoutCancel(t.Context())))
	return s
}

// Work carries out tasks until the returned function is called, which waits for them.
func (s *Site) Work(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.Admin.Tasks.Run(ctx) }()
	return func() {
		cancel()
		<-ended
	}
}

// NewClient returns a browser without cookies.
func NewClient() *http.Client {
	jar, _ := cookiejar.New(nil) // never fails without options
	return &http.Client{Jar: jar, Timeout: wait.Limit}
}

// As signs in. It opens a page without figures, which would be kept for seconds.
func (s *Site) As(name string) *Site {
	s.Helper()
	s.Client = NewClient()
	status, body := s.Post("/login", "username", name, "password", Password, "next", "/account")
	if status != http.StatusOK {
		s.Fatalf("signing in as %s: %d\n%s", name, status, body)
	}
	return s
}

// Get requests a page.
func (s *Site) Get(path string) (status int, body string) {
	s.Helper()
	return s.Send(s.request(http.MethodGet, path, nil))
}

// Post sends a form with pairs of field name and value, and follows the redirect.
func (s *Site) Post(path string, pairs ...string) (status int, body string) {
	s.Helper()
	return s.Send(s.request(http.MethodPost, path, pairs))
}

// Do sends a form with another method.
func (s *Site) Do(method, path string, pairs ...string) (status int, body string) {
	s.Helper()
	return s.Send(s.request(method, path, pairs))
}

// Part returns the answer that htmx gets for a form, without following redirects.
func (s *Site) Part(path string, pairs ...string) (*http.Response, string) {
	s.Helper()
	r := s.request(http.MethodPost, path, pairs)
	r.Header.Set("HX-Request", "true")
	return s.answer(r)
}

func (s *Site) request(method, path string, pairs []string) *http.Request {
	s.Helper()
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Add(pairs[i], pairs[i+1])
	}
	r, err := http.NewRequestWithContext(s.Context(), method, s.URL+path, strings.NewReader(form.Encode()))
	Must(s, err)
	if method != http.MethodGet || len(pairs) > 0 {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return r
}

// Send sends a request.
func (s *Site) Send(r *http.Request) (status int, body string) {
	s.Helper()
	res, body := s.answer(r)
	return res.StatusCode, body
}

func (s *Site) answer(r *http.Request) (*http.Response, string) {
	s.Helper()
	res, err := s.Client.Do(r)
	Must(s, err)
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	Must(s, err)
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/html") {
		return res, string(body)
	}
	return res, Squeeze(string(body))
}

var (
	verbatim = regexp.MustCompile(`(?s)<(pre|textarea)\b.*?</(pre|textarea)>`)
	layout   = strings.NewReplacer(">\n", ">", "\n<", "<", "\n", " ")
)

// Squeeze removes the line breaks of a template from a page, so that tests do not depend on its layout.
func Squeeze(page string) string {
	var squeezed strings.Builder
	from := 0
	for _, at := range append(verbatim.FindAllStringIndex(page, -1), []int{len(page), len(page)}) {
		squeezed.WriteString(squeeze(page[from:at[0]]) + page[at[0]:at[1]])
		from = at[1]
	}
	return squeezed.String()
}

var breaks = regexp.MustCompile(`\s*\n\s*`)

func squeeze(part string) string {
	return strings.ReplaceAll(layout.Replace(breaks.ReplaceAllString(part, "\n")), "> <", "><")
}

// Shows requests a page, which must contain the texts.
func (s *Site) Shows(path string, texts ...string) (body string) {
	s.Helper()
	status, body := s.Get(path)
	if status != http.StatusOK {
		s.Fatalf("%s answered %d:\n%s", path, status, body)
	}
	for _, text := range texts {
		if !strings.Contains(body, text) {
			s.Errorf("%s does not show %q:\n%s", path, text, body)
		}
	}
	return body
}

// Strip returns the totals as the stream sends them. From then on every page shows them for a while.
func (s *Site) Strip() string {
	s.Helper()
	r := s.request(http.MethodGet, "/events?on=strip", nil)
	res, err := s.Client.Do(r)
	Must(s, err)
	defer func() { _ = res.Body.Close() }()
	var strip strings.Builder
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		data, is := strings.CutPrefix(lines.Text(), "data: ")
		if is {
			strip.WriteString(data + "\n")
		} else if strip.Len() > 0 {
			break
		}
	}
	return strip.String()
}
