package search

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/wakecall/wakecall/internal/callback"
	"github.com/wakecall/wakecall/internal/journal"
)

// Path is the route that hosts ask each other for.
const Path = "/v1/search"

// scheme is that of the Authorization header of a host: the time of the request in Unix seconds, and a signature of it
// and of the query.
const scheme = "Wakecall-Host "

// signedFor is how long a signature is accepted; clocks of hosts may differ by as much.
const signedFor = 5 * time.Minute

// line is a line of a host's answer.
type line struct {
	Progress *journal.Progress `json:"progress,omitempty"`
	Event    *Event            `json:"event,omitempty"`
	Done     bool              `json:"done,omitempty"`
	Cut      bool              `json:"cut,omitempty"`
	Error    string            `json:"error,omitempty"`
}

func (s *Searcher) signature(at, query string) string {
	mac := hmac.New(sha256.New, s.Key)
	_, _ = fmt.Fprintf(mac, "wakecall search\n%s\n%s", at, query)
	return hex.EncodeToString(mac.Sum(nil))
}

// ByHost reports whether a request claims to come from another host.
func ByHost(r *http.Request) bool { return strings.HasPrefix(r.Header.Get("Authorization"), scheme) }

// Signed reports whether a request comes from a host that has the key.
func (s *Searcher) Signed(r *http.Request, now time.Time) bool {
	at, signature, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Authorization"), scheme), ".")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || s.Key == nil || now.Sub(time.Unix(seconds, 0)).Abs() > signedFor {
		return false
	}
	return hmac.Equal([]byte(signature), []byte(s.signature(at, r.URL.RawQuery)))
}

// Errors of other hosts' requests.
var (
	ErrOther = errors.New("the request is for another host")
	ErrBusy  = errors.New("too many searches for other hosts are under way")
)

// Serve answers another host's signed request with the lines of this host's journal, one JSON object a line.
func (s *Searcher) Serve(ctx context.Context, query url.Values, w http.ResponseWriter, flush func()) error {
	if query.Get("self") != s.Host {
		return ErrOther
	}
	defer s.serving.Add(-1)
	if s.serving.Add(1) > maxServed {
		return ErrBusy
	}
	out := json.NewEncoder(w)
	var told time.Time
	progress := func(p journal.Progress) {
		if time.Since(told) >= tellEvery {
			told = time.Now()
			_ = out.Encode(line{Progress: &p}) // a failure cancels ctx
			flush()
		}
	}
	last := journal.Progress{}
	cut, err := s.Self(ctx, Query{query.Get("id"), query.Get("topic")},
		func(p journal.Progress) { last = p; progress(p) }, func(e Event) { _ = out.Encode(line{Event: &e}) })
	end := line{Done: true, Cut: cut, Progress: &last}
	if err != nil {
		end.Error = err.Error()
	}
	return out.Encode(end)
}

var (
	errNoKey  = errors.New("cannot be asked: this host has no registry.seal_key, which hosts use to trust each other")
	errNoAddr = errors.New("cannot be asked: no address of its server is reachable from other hosts (server.addr)")
)

// ask searches another host's journal.
func (s *Searcher) ask(
	ctx context.Context, p Peer, q Query, progress func(journal.Progress), found func(Event),
) (cut bool, err error) {
	switch {
	case s.Key == nil:
		return false, errNoKey
	case len(p.Addrs) == 0:
		return false, errNoAddr
	}
	var errs []error
	for _, addr := range p.Addrs {
		answer, err := s.request(ctx, p.Name, addr, q)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		defer answer.Close()
		return readAnswer(answer, progress, found)
	}
	return false, fmt.Errorf("cannot be asked: %w", errors.Join(errs...))
}

func (s *Searcher) request(ctx context.Context, host string, addr netip.AddrPort, q Query) (io.ReadCloser, error) {
	values := url.Values{"id": {q.ID}, "self": {host}}
	if q.Topic != "" {
		values.Set("topic", q.Topic)
	}
	to := url.URL{Scheme: "http", Host: addr.String(), Path: Path, RawQuery: values.Encode()}
	if s.TLS {
		to.Scheme = "https"
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return nil, err
	}
	at := strconv.FormatInt(time.Now().Unix(), 10)
	r.Header.Set("Authorization", scheme+at+"."+s.signature(at, to.RawQuery))
	res, err := s.Web.Do(r)
	if err != nil {
		return nil, err
	}
	if res.StatusCode == http.StatusOK {
		return res.Body, nil
	}
	defer res.Body.Close()
	var problem struct{ Detail string }
	_ = json.NewDecoder(io.LimitReader(res.Body, 64<<10)).Decode(&problem)
	return nil, fmt.Errorf("%s answered %d %s", addr, res.StatusCode, problem.Detail)
}

func readAnswer(from io.Reader, progress func(journal.Progress), found func(Event)) (cut bool, err error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var l line
		if err := json.NewDecoder(bytes.NewReader(lines.Bytes())).Decode(&l); err != nil {
			return cut, fmt.Errorf("its answer: %w", err)
		}
		if l.Progress != nil {
			progress(*l.Progress)
		}
		if l.Event != nil {
			found(*l.Event)
		}
		if l.Error != "" {
			err = errors.New(l.Error)
		}
		if l.Done {
			return l.Cut, err
		}
	}
	if err := lines.Err(); err != nil {
		return false, fmt.Errorf("its answer: %w", err)
	}
	return false, errors.New("its answer was cut off")
}

// NewWeb returns a client for other hosts.
func NewWeb() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy = nil
	t.DisableKeepAlives = true
	t.DialContext = (&net.Dialer{Timeout: dialLimit, ControlContext: callback.Control}).DialContext
	t.ResponseHeaderTimeout = 10 * time.Second
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}
