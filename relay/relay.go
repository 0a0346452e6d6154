package relay

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/internal/pause"
)

// Options of a Relay. Zero fields have defaults.
type Options struct {
	Table        *Table
	Client       *client.Client // each call must end within CallTimeout: see doc.go
	Topics       []string       // patterns: rows of other topics are set aside; none: all
	SkipSetAside bool           // rows that are set aside hold up no later rows of their keys
	Name         string         // of its reports; default: the database's and the table's
	Attempts     int            // refusals until a row is set aside; default 5
	Log          *slog.Logger

	Claim       time.Duration // how long a claim lasts; default 10 s
	CallTimeout time.Duration // of one call; default 3 s
	Poll        time.Duration // of an idle relay; default 250 ms
	Pause       time.Duration // before the next attempt, doubled by each refusal; default 1 s
	Rows        int           // of a claim; default 500
}

const (
	concurrency  = 16              // calls at once
	bytesOfClaim = 4 << 20         // of bodies: one call of them all takes 3 s at 12 Mbit/s
	margin       = time.Second     // between the end of a call and that of its claim
	longestPause = 5 * time.Second // while no call is answered
)

// Relay carries rows.
type Relay struct {
	Options
	id      string // of this process
	failed  int    // rounds in a row in which no call was answered
	metrics *metrics
}

// New returns a Relay.
func New(o Options) *Relay {
	o.Attempts = cmp.Or(o.Attempts, 5)
	o.Claim = cmp.Or(o.Claim, 10*time.Second)
	o.CallTimeout = cmp.Or(o.CallTimeout, 3*time.Second)
	o.Poll = cmp.Or(o.Poll, 250*time.Millisecond)
	o.Pause = cmp.Or(o.Pause, time.Second)
	o.Rows = cmp.Or(o.Rows, 500)
	o.Name = unsafeInName.ReplaceAllString(cmp.Or(o.Name, o.Table.Name()), "_")
	host, _ := os.Hostname() // for people
	return &Relay{Options: o, id: fmt.Sprintf("%.24s-%d", host, os.Getpid()), metrics: newMetrics()}
}

// Run carries rows until ctx is done; then it finishes the calls that run, and gives the other rows back.
func (r *Relay) Run(ctx context.Context) error {
	var watching sync.WaitGroup
	watching.Go(func() { r.watch(ctx) })
	defer watching.Wait()
	for ctx.Err() == nil {
		wait, err := r.round(ctx)
		if err != nil && ctx.Err() == nil {
			r.metrics.problem.Store(err.Error())
			r.Log.Warn("cannot read the outbox; retrying", "error", err)
			wait = max(wait, time.Second)
		}
		pause.For(ctx, wait)
	}
	return nil
}

// round carries the rows of one claim, and returns how long to wait before the next.
func (r *Relay) round(ctx context.Context) (time.Duration, error) {
	by := rules{rows: r.Rows, lasts: r.Claim, skip: r.SkipSetAside}
	if r.failed > 0 {
		by.rows = 1 // to see whether calls are answered again
	}
	c, err := r.Table.claim(context.WithoutCancel(ctx), r.id+"-"+rand.Text()[:16], by)
	if err != nil || len(c.rows) == 0 {
		if err == nil && r.failed == 0 { // otherwise a row may wait for its next attempt
			r.metrics.problem.Store("")
		}
		return r.Poll, err
	}
	t, err := r.carry(ctx, c)
	r.metrics.problem.Store(t.unavailable)
	if t.unavailable != "" {
		r.Log.Warn("rows were not accepted; retrying", "error", t.unavailable)
	}
	if t.answered || err != nil {
		r.failed = 0
		return 0, err
	}
	if t.unavailable == "" { // no call was made: the relay stops, or the claim took too long
		return r.Poll, nil
	}
	r.failed++
	return min(100*time.Millisecond<<min(r.failed, 10), longestPause), nil
}
