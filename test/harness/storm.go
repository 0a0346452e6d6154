package harness

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Storm sends requests over many connections at a high rate. It writes to sockets itself: net/http would use more CPU
// time than the server under test, and would retry failed requests on its own.
type Storm struct {
	stop  context.CancelFunc
	wg    sync.WaitGroup
	began time.Time

	mu   sync.Mutex
	seen Tempest
}

// StormOptions configure a storm.
type StormOptions struct {
	Topic string
	Rate  int    // requests per second of all connections together
	Kept  int    // connections that are kept until the server says that it closes them
	Short int    // clients that make one connection per request, one after the other
	Delay string // of the jobs
}

// Tempest holds the results of a storm.
type Tempest struct {
	Requests int
	Pushed   int // jobs whose push was answered 201
	Failed   []string
	Closed   int // kept connections that the server closed after announcing it in an answer
	Slowest  time.Duration
	Took     time.Duration
	Tenths   []int // requests per tenth of a second, by the time of their answer
}

// Rate returns how many requests per second were answered.
func (s Tempest) Rate() float64 { return float64(s.Requests) / s.Took.Seconds() }

// stormLimit is the time limit of a request.
const stormLimit = time.Minute

// StartStorm pushes jobs and reads each of them, one after the other on each connection. No request is repeated, and
// every answer but success is a failure.
func StartStorm(t testing.TB, api *API, opts StormOptions) *Storm {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Storm{stop: cancel, began: time.Now()}
	pace := time.Second * time.Duration(opts.Kept+opts.Short) / time.Duration(opts.Rate)
	for n := range opts.Kept + opts.Short {
		c := stormConn{storm: s, api: api, opts: opts, name: fmt.Sprintf("storm-%d", n), kept: n < opts.Kept}
		s.wg.Go(func() { c.run(ctx, pace) })
	}
	t.Cleanup(func() { s.Stop() })
	return s
}

// Stop ends the storm and returns its results.
func (s *Storm) Stop() Tempest {
	s.stop()
	s.wg.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen.Took == 0 {
		s.seen.Took = time.Since(s.began)
	}
	return s.seen
}

// WaitRequests waits until n more requests than now have been answered.
func (s *Storm) WaitRequests(t testing.TB, n int) {
	t.Helper()
	answered := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.seen.Requests
	}
	want := answered() + n
	Eventually(t, Patience, fmt.Sprintf("%d more requests to be answered", n), func() error {
		if got := answered(); got < want {
			return fmt.Errorf("%d were answered, of %d", got, want)
		}
		return nil
	})
}

func (s *Storm) note(status, want int, closed bool, took time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && status != want {
		err = fmt.Errorf("status %d", status)
	}
	if err != nil {
		s.seen.Failed = append(s.seen.Failed, fmt.Sprintf("%s after %s: %v", time.Since(s.began), took, err))
		return
	}
	s.seen.Requests++
	if want == 201 {
		s.seen.Pushed++
	}
	if closed {
		s.seen.Closed++
	}
	s.seen.Slowest = max(s.seen.Slowest, took)
	tenth := int(time.Since(s.began) / (100 * time.Millisecond))
	for len(s.seen.Tenths) <= tenth {
		s.seen.Tenths = append(s.seen.Tenths, 0)
	}
	s.seen.Tenths[tenth]++
}

// stormConn is one client of a storm.
type stormConn struct {
	storm *Storm
	api   *API
	opts  StormOptions
	name  string
	kept  bool

	conn net.Conn
	r    *bufio.Reader
}

func (c *stormConn) run(ctx context.Context, pace time.Duration) {
	defer c.hangUp()
	next := time.Now()
	for n := 0; ctx.Err() == nil; n++ {
		id := fmt.Sprintf("%s-%d", c.name, n/2)
		request, want := c.get(id), 200
		if n%2 == 0 {
			request, want = c.push(id), 201
		}
		sent := time.Now()
		status, closes, err := c.ask(request)
		c.storm.note(status, want, closes && c.kept, time.Since(sent), err)
		if closes || err != nil || !c.kept {
			c.hangUp()
		}
		next = next.Add(pace)
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(next)): // no wait when it is behind
		}
	}
}

func (c *stormConn) push(id string) []byte {
	body := fmt.Sprintf(`{"id":%q,"delay":%q,"body":{"storm":1}}`, id, c.opts.Delay)
	return fmt.Appendf(
		nil,
		"POST /v1/topics/%s/jobs HTTP/1.1\r\n%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		c.opts.Topic,
		c.headers(),
		len(body),
		body,
	)
}

func (c *stormConn) get(id string) []byte {
	return fmt.Appendf(nil, "GET %s HTTP/1.1\r\n%s\r\n", JobPath(c.opts.Topic, id), c.headers())
}

func (c *stormConn) headers() string {
	h := "Host: wakecall\r\nAuthorization: Bearer " + c.api.Token + "\r\n"
	if !c.kept {
		h += "Connection: close\r\n"
	}
	return h
}

// ask sends a request and reads its answer. closes reports whether the server closes the connection.
func (c *stormConn) ask(request []byte) (status int, closes bool, err error) {
	if c.conn == nil {
		c.conn, err = net.DialTimeout("tcp", strings.TrimPrefix(c.api.Base, "http://"), stormLimit)
		if err != nil {
			return 0, false, err
		}
		c.r = bufio.NewReaderSize(c.conn, 4<<10)
	}
	_ = c.conn.SetDeadline(time.Now().Add(stormLimit))
	if _, err := c.conn.Write(request); err != nil {
		return 0, false, err
	}
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return 0, false, err
	}
	if len(line) < len("HTTP/1.1 200") {
		return 0, false, fmt.Errorf("status line %q", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, false, fmt.Errorf("status line %q", line)
	}
	length, closes, err := c.readHeaders()
	if err == nil {
		_, err = c.r.Discard(length)
	}
	return status, closes, err
}

// readHeaders reads up to the empty line.
func (c *stormConn) readHeaders() (length int, closes bool, err error) {
	length = -1
	for {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return 0, false, err
		}
		name, value, found := bytes.Cut(bytes.TrimSpace(line), []byte(": "))
		switch {
		case !found && length < 0:
			return 0, false, errors.New("an answer without Content-Length")
		case !found:
			return length, closes, nil
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return 0, false, err
			}
		case bytes.EqualFold(name, []byte("Connection")):
			closes = bytes.EqualFold(value, []byte("close"))
		}
	}
}

func (c *stormConn) hangUp() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

// Lull returns the lowest rate, in requests per second, of any tenth of a second except the first and the last.
func (s Tempest) Lull() int {
	if len(s.Tenths) < 3 {
		return 0
	}
	return 10 * slices.Min(s.Tenths[1:len(s.Tenths)-1])
}
