package harness

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Client makes one request. An error ends it; ErrDone says that it has no more to do.
type Client func(context.Context) error

// ErrDone ends a client without a failure.
var ErrDone = errors.New("done")

// Load is a number of clients that make requests in the background, each one after the other.
type Load struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
	began  time.Time

	mu   sync.Mutex
	seen Seen
}

// Seen are the results of a load.
type Seen struct {
	Requests int
	Failed   []string // at most one a client
	Slowest  time.Duration
	Took     time.Duration
}

// Rate returns how many requests per second were answered.
func (s Seen) Rate() float64 { return float64(s.Requests) / s.Took.Seconds() }

// StartClients starts n clients, which together make rate requests a second; 0: each makes the next request as soon as
// the last one was answered. Stop is called at the latest at the end of the test.
func StartClients(t testing.TB, n, rate int, client func(n int) Client) *Load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &Load{cancel: cancel, began: time.Now()}
	var pace time.Duration
	if rate > 0 {
		pace = time.Second * time.Duration(n) / time.Duration(rate)
	}
	for i := range n {
		request := client(i)
		l.wg.Go(func() { l.run(ctx, pace, request) })
	}
	t.Cleanup(func() { l.Stop() })
	return l
}

func (l *Load) run(ctx context.Context, pace time.Duration, request Client) {
	var turn <-chan time.Time
	if pace > 0 {
		tick := time.NewTicker(pace)
		defer tick.Stop()
		turn = tick.C
	}
	for ctx.Err() == nil {
		if turn != nil {
			select {
			case <-ctx.Done():
				return
			case <-turn:
			}
		}
		sent := time.Now()
		err := request(ctx)
		if errors.Is(err, ErrDone) || !l.count(time.Since(sent), err, ctx.Err() != nil) {
			return
		}
	}
}

// count records an answer, and reports whether the client goes on. The end of the load may have ended the request.
func (l *Load) count(took time.Duration, err error, ended bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		if !ended {
			l.seen.Failed = append(l.seen.Failed, fmt.Sprintf("%s after %s: %v", time.Since(l.began), took, err))
		}
		return false
	}
	l.seen.Requests++
	l.seen.Slowest = max(l.seen.Slowest, took)
	return true
}

// Requests returns how many requests were answered so far.
func (l *Load) Requests() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen.Requests
}

// WaitRequests waits until n more requests than now have been answered.
func (l *Load) WaitRequests(t testing.TB, n int) {
	t.Helper()
	waitMore(t, n, "requests to be answered", l.Requests)
}

// waitMore waits until a count is n higher than now.
func waitMore(t testing.TB, n int, what string, count func() int) {
	t.Helper()
	want := count() + n
	Eventually(t, Patience, fmt.Sprintf("%d more %s", n, what), func() error {
		if got := count(); got < want {
			return fmt.Errorf("there were %d, of %d", got, want)
		}
		return nil
	})
}

// Wait waits until every client is done, and returns the results.
func (l *Load) Wait() Seen {
	l.wg.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen.Took == 0 {
		l.seen.Took = time.Since(l.began)
	}
	return l.seen
}

// Stop ends the load when the last request was answered, and returns the results.
func (l *Load) Stop() Seen {
	l.cancel()
	return l.Wait()
}

// LoadOptions configure the rate and the jobs of a load.
type LoadOptions struct {
	Topic   string
	Rate    int // pushes per second of all pushers together; 0: 100
	Pushers int // 0: 4
	Fields  M   // fields of every push, such as a delay
	// PushFailed is called with every answer that does not accept the push.
	PushFailed func(Answer)
}

// StartLoad starts pushing jobs and recording them in a ledger; through API.Quick, because otherwise most of the CPU
// time would go into checking answers against the OpenAPI document.
func StartLoad(t testing.TB, api *API, l *Ledger, opts LoadOptions) *Load {
	if opts.Rate == 0 {
		opts.Rate = 100
	}
	if opts.Pushers == 0 {
		opts.Pushers = 4
	}
	return StartClients(t, opts.Pushers, opts.Rate, func(int) Client {
		return func(context.Context) error { // not with its context: the end of the load must not abort a push
			answer := l.Push(context.Background(), api, opts.Topic, newID(), opts.Fields)
			if opts.PushFailed != nil && (answer.Err != nil || answer.Status >= 300) {
				opts.PushFailed(answer)
			}
			return nil
		}
	})
}

var loaded atomic.Int64

// newID returns an id that no load has used.
func newID() string { return fmt.Sprint("load-", loaded.Add(1)) }

// StormOptions configure a storm.
type StormOptions struct {
	Topic string
	Rate  int // requests per second of all connections together
	Kept  int // connections that are kept until the server says that it closes them
	Short int // clients that make one connection per request, one after the other
}

// Storm is a load that pushes jobs and reads each of them, at a high rate over many connections.
type Storm struct {
	*Load
	Pushed atomic.Int64 // jobs that were accepted
}

// StartStorm starts a storm. No request is repeated, and every answer but success is a failure.
func StartStorm(t testing.TB, api *API, opts StormOptions) *Storm {
	s := &Storm{}
	s.Load = StartClients(t, opts.Kept+opts.Short, opts.Rate, func(client int) Client {
		conn := &Conn{Addr: strings.TrimPrefix(api.Base, "http://"), Short: client >= opts.Kept}
		t.Cleanup(conn.Close)
		pushed := ""
		return func(ctx context.Context) error {
			ctx = context.WithoutCancel(ctx)
			if pushed != "" {
				_, err := conn.Do(ctx, Request("GET", JobPath(opts.Topic, pushed), api.Token, ""), 200)
				pushed = ""
				return err
			}
			pushed = newID()
			body := fmt.Sprintf(`{"id":%q,"delay":"1h","body":{"storm":1}}`, pushed)
			_, err := conn.Do(ctx, Request("POST", "/v1/topics/"+opts.Topic+"/jobs", api.Token, body), 201)
			if err == nil {
				s.Pushed.Add(1)
			}
			return err
		}
	})
	return s
}
