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
	concurrency  = 16               // calls at once
	bytesOfClaim = 16 << 20         // of bodies
	margin       = time.Second      // between the end of a call and that of its claim
	longestPause = 5 * time.Second  // while no call is answered, unless the server asks for more
	mostAsked    = 10 * time.Minute // that the server may ask for with Retry-After
)

// Relay carries rows.
type Relay struct {
	Options
	id      string // of this process
	claims  int
	checked time.Time // when it last looked for claims that have run out
	failed  int       // rounds in a row in which no call was answered
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
	if len(host) > 24 {
		host = host[:24]
	}
	return &Relay{
		Options: o, id: fmt.Sprintf("%s-%d-%s", host, os.Getpid(), rand.Text()[:8]), metrics: newMetrics(),
	}
}

// Run carries rows until ctx is done; then it finishes the calls that run, and gives the other rows back.
func (r *Relay) Run(ctx context.Context) error {
	var watching sync.WaitGroup
	watching.Go(func() { r.watch(ctx) })
	defer watching.Wait()
	for ctx.Err() == nil {
		pause, err := r.round(ctx)
		if err != nil && ctx.Err() == nil {
			r.metrics.setProblem(err.Error())
			r.Log.Warn("cannot read the outbox; retrying", "error", err)
			pause = max(pause, time.Second)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return nil
}

// round carries the rows of one claim, and returns how long to wait before the next.
func (r *Relay) round(ctx context.Context) (time.Duration, error) {
	if time.Since(r.checked) >= r.Poll {
		due, over, err := r.Table.anything(ctx)
		if err == nil && over {
			err = r.Table.giveBack(ctx)
		}
		if err != nil {
			return r.Poll, err
		}
		if !due && !over {
			r.metrics.setProblem("")
			return r.Poll, nil
		}
		r.checked = time.Now()
	}
	by := rules{rows: r.Rows, bytes: bytesOfClaim, lasts: r.Claim, skip: r.SkipSetAside}
	if r.failed > 0 {
		by.rows = 1 // to see whether calls are answered again
	}
	r.claims++
	c, err := r.Table.claim(context.WithoutCancel(ctx), fmt.Sprintf("%s-%d", r.id, r.claims), by)
	if err != nil || len(c.rows) == 0 {
		if err == nil && r.failed == 0 {
			r.metrics.setProblem("")
		}
		return r.Poll, err
	}
	t, err := r.carry(ctx, c)
	r.metrics.setProblem(t.unavailable)
	r.tell(t)
	if t.answered || err != nil {
		r.failed = 0
		return 0, err
	}
	if t.unavailable == "" { // no call was made: the relay stops, or the claim took too long
		return r.Poll, nil
	}
	r.failed++
	pause := min(100*time.Millisecond<<min(r.failed, 10), longestPause)
	return max(pause, min(t.asked, mostAsked)), nil
}

// tell logs what went wrong in a round.
func (r *Relay) tell(t tally) {
	if t.aside > 0 {
		r.Log.Warn("rows are set aside; see wakecall relay list", "rows", t.aside, "error", t.refused)
	}
	if t.unavailable != "" {
		r.Log.Warn("rows were not accepted; retrying", "error", t.unavailable)
	}
}
