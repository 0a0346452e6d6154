package harness

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Load pushes jobs in the background and records them in a ledger, until it is stopped.
type Load struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// LoadOptions configure the rate and the jobs of a load.
type LoadOptions struct {
	Topic   string
	Rate    int    // pushes per second of all pushers together; 0: 100
	Pushers int    // 0: 4
	Prefix  string // prefix of the ids; "": load
	Fields  M      // fields of every push, such as a delay
	// PushFailed is called with every answer that does not accept the push.
	PushFailed func(Answer)
}

// StartLoad starts pushing; through API.Quick, because otherwise most of the CPU time would go into checking answers
// against the OpenAPI document. Stop is called at the latest at the end of the test.
func StartLoad(t testing.TB, api *API, l *Ledger, opts LoadOptions) *Load {
	if opts.Rate == 0 {
		opts.Rate = 100
	}
	if opts.Pushers == 0 {
		opts.Pushers = 4
	}
	if opts.Prefix == "" {
		opts.Prefix = "load"
	}
	ctx, cancel := context.WithCancel(context.Background())
	load := &Load{cancel: cancel}
	for n := range opts.Pushers {
		load.wg.Go(func() { push(ctx, api, l, opts, opts.Prefix+strconv.Itoa(n)) })
	}
	t.Cleanup(load.Stop)
	return load
}

// Stop stops pushing and waits until the last push has been answered.
func (l *Load) Stop() {
	l.cancel()
	l.wg.Wait()
}

func push(ctx context.Context, api *API, l *Ledger, opts LoadOptions, prefix string) {
	tick := time.NewTicker(time.Second * time.Duration(opts.Pushers) / time.Duration(opts.Rate))
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		// Not with ctx: the end of the load must not abort a push.
		answer := l.Push(context.Background(), api, opts.Topic, fmt.Sprintf("%s-%d", prefix, n), opts.Fields)
		if opts.PushFailed != nil && (answer.Err != nil || answer.Status >= 300) {
			opts.PushFailed(answer)
		}
	}
}

// WaitAcknowledged waits until at least n more pushes than now have been acknowledged.
func (l *Ledger) WaitAcknowledged(t testing.TB, n int) {
	t.Helper()
	want := l.Acknowledged() + n
	Eventually(t, Patience, fmt.Sprintf("%d more pushes to be acknowledged", n), func() error {
		if got := l.Acknowledged(); got < want {
			return fmt.Errorf("%d were acknowledged, of %d", got, want)
		}
		return nil
	})
}
