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
	"hash"
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

// line is a line of the answer of a host, or of the process that reads this host's journal.
type line struct {
	Progress *journal.Progress `json:"progress,omitempty"`
	Event    *Event            `json:"event,omitempty"`
	Done     bool              `json:"done,omitempty"`
	Cut      bool              `json:"cut,omitempty"`
	Error    string            `json:"error,omitempty"`
}

func (s *Searcher) signature(at, query string) string {
	return signed(s.mac("search\n"+at+"\n"+query), nil)
}

func (s *Searcher) mac(begin string) hash.Hash {
	mac := hmac.New(sha256.New, s.Key)
	_, _ = io.WriteString(mac, "wakecall "+begin)
	return mac
}

// signed returns the signature of a line and of all that came before it.
func signed(mac hash.Hash, line []byte) string {
	_, _ = mac.Write(line)
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
	ErrBusy  = errors.New("too many searches of this host wait for their turn")
)

// Serve answers another host's signed request with the lines of this host's journal: signatures and JSON objects.
func (s *Searcher) Serve(ctx context.Context, r *http.Request, w io.Writer, flush func()) error {
	query := r.URL.Query()
	if query.Get("self") != s.Host {
		return ErrOther
	}
	mac := s.mac("answer\n" + r.Header.Get("Authorization"))
	write := func(l line) {
		text, _ := json.Marshal(l)
		_, _ = fmt.Fprintf(w, "%s %s\n", signed(mac, text), text) // a failure cancels ctx
		if l.Event == nil {
			flush()
		}
	}
	err := s.own(ctx, Query{
		ID: query.Get("id"), Topic: query.Get("topic"), Within: query["within"], Group: query.Get("group"),
	}, write)
	if errors.Is(err, ErrBusy) {
		return err
	}
	if err != nil {
		write(line{Done: true, Error: err.Error()})
	}
	return nil
}

var (
	errNoKey  = errors.New("cannot be asked: this host has no registry.seal_key, which hosts use to trust each other")
	errNoAddr = errors.New("cannot be asked: no address of its server is reachable from other hosts (server.addr)")
)

// ask searches another host's journal.
func (s *Searcher) ask(ctx context.Context, p Peer, q Query, tell func(line)) error {
	switch {
	case s.Key == nil:
		return errNoKey
	case len(p.Addrs) == 0:
		return errNoAddr
	}
	var errs []error
	for _, addr := range p.Addrs {
		answer, mac, err := s.request(ctx, p.Name, addr, q)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		defer answer.Close()
		return readAnswer(answer, mac, tell)
	}
	return fmt.Errorf("cannot be asked: %w", errors.Join(errs...))
}

// request returns a host's answer, and what its lines are signed with.
func (s *Searcher) request(
	ctx context.Context, host string, addr netip.AddrPort, q Query,
) (io.ReadCloser, hash.Hash, error) {
	values := url.Values{"id": {q.ID}, "self": {host}, "within": q.Within}
	for name, value := range map[string]string{"topic": q.Topic, "group": q.Group} {
		if value != "" {
			values.Set(name, value)
		}
	}
	to := url.URL{Scheme: "http", Host: addr.String(), Path: Path, RawQuery: values.Encode()}
	if s.TLS {
		to.Scheme = "https"
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return nil, nil, err
	}
	at := strconv.FormatInt(time.Now().Unix(), 10)
	r.Header.Set("Authorization", scheme+at+"."+s.signature(at, to.RawQuery))
	res, err := s.Web.Do(r)
	if err != nil {
		return nil, nil, err
	}
	if res.StatusCode == http.StatusOK {
		return res.Body, s.mac("answer\n" + r.Header.Get("Authorization")), nil
	}
	defer res.Body.Close()
	var problem struct{ Detail string }
	_ = json.NewDecoder(io.LimitReader(res.Body, 64<<10)).Decode(&problem)
	return nil, nil, fmt.Errorf("%s answered %d %s", addr, res.StatusCode, problem.Detail)
}

var errCutOff = errors.New("its answer was cut off")

// readAnswer reads the lines of a host, which are signed, or of this host's process, if mac is nil. It stops at a wrong
// signature, and does not read more than an answer may have.
func readAnswer(from io.Reader, mac hash.Hash, tell func(line)) error {
	lines := bufio.NewScanner(io.LimitReader(from, maxAnswer))
	lines.Buffer(nil, maxAnswer)
	for events := 0; lines.Scan(); {
		text := lines.Bytes()
		if mac != nil {
			var signature []byte
			signature, text, _ = bytes.Cut(text, []byte(" "))
			if !hmac.Equal(signature, []byte(signed(mac, text))) {
				return errors.New("its answer is not signed with this host's key")
			}
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return fmt.Errorf("its answer: %w", err)
		}
		if l.Event != nil {
			if events++; events > 2*maxEvents {
				tell(line{Cut: true})
				return errors.New("its answer has too many events")
			}
		}
		switch tell(l); {
		case l.Error != "":
			return errors.New(l.Error)
		case l.Done:
			return nil
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("its answer: %w", err)
	}
	return errCutOff
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
