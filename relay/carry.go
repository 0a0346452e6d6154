package relay

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/wakecall/wakecall/client"
)

// carry calls the API for the rows of a claim, in waves: no two rows of a wave have a name in common, and a wave is
// settled before the next begins. So at most one row of a key has been carried and is still there, and repeating it
// changes nothing that a later row has done. The rows behind one that is not done are given back.
func (r *Relay) carry(ctx context.Context, c *claim) (t tally, err error) {
	notDone := holes{}
	for len(c.rows) > 0 {
		wave, later := nextWave(c.rows)
		outcomes := r.call(ctx, c, wave)
		for i := range outcomes {
			o := &outcomes[i]
			r.note(&t, o)
			if o.change.state != gone {
				notDone.add(o.row)
			}
		}
		ready, held := notDone.split(later)
		for i := range held {
			outcomes = append(outcomes, outcome{row: &held[i], change: change{state: waiting}})
		}
		if err := r.settle(ctx, c, outcomes); err != nil {
			return t, err
		}
		c.rows = ready
	}
	return t, nil
}

// nextWave splits rows, in the order of seq, into those to call now and those for later.
func nextWave(rows []Row) (wave, later []Row) {
	used := map[string]bool{}
	for i := range rows {
		isUsed := false
		for _, name := range rows[i].names() {
			isUsed = isUsed || used[name]
			used[name] = true
		}
		if isUsed {
			later = append(later, rows[i])
		} else {
			wave = append(wave, rows[i])
		}
	}
	return wave, later
}

// tally sums up a round.
type tally struct {
	answered    bool   // a call was answered for its row
	unavailable string // the first error of the others
}

// note counts what became of a row, and logs it when it is set aside.
func (r *Relay) note(t *tally, o *outcome) {
	switch o.result {
	case resultNotCalled:
		return
	case resultUnavailable:
		t.unavailable = cmp.Or(t.unavailable, o.change.err)
	default:
		t.answered = true
	}
	if o.change.state == refused {
		r.Log.Warn("a row is set aside; see wakecall relay list", "seq", o.row.Seq, "error", o.change.err)
	}
	op := o.row.Op
	if !slices.Contains([]string{opPush, opChange, opDelete, opCancelGroup}, op) {
		op = "unknown" // a service may write anything
	}
	r.metrics.rows.WithLabelValues(op, o.result).Inc()
}

// settle is Table.settle, repeated until the claim has run out: the database may be restarting. Then other relays
// repeat its rows.
func (r *Relay) settle(ctx context.Context, c *claim, outcomes []outcome) error {
	for {
		err := r.Table.settle(context.WithoutCancel(ctx), c.id, outcomes)
		if err == nil || c.left() < margin {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// call calls the API for the rows of a wave: the pushes in a batch, the others one by one.
func (r *Relay) call(ctx context.Context, c *claim, wave []Row) []outcome {
	outcomes := make([]outcome, len(wave))
	var calls errgroup.Group
	calls.SetLimit(concurrency)
	var pushes []*outcome
	for i := range wave {
		o := &outcomes[i]
		o.row, o.change.state = &wave[i], waiting
		req, err := o.row.request(r.Table.Name(), r.Topics)
		switch {
		case err != nil:
			o.result, o.change = resultRefused, r.refusal(o.row, err)
		case o.row.Op == opPush:
			o.body = req.body
			pushes = append(pushes, o)
		default:
			calls.Go(func() error {
				if r.mayCall(ctx, c) {
					r.judge(o, r.send(ctx, req.method, req.path, req.body, nil))
				}
				return nil
			})
		}
	}
	if len(pushes) > 0 {
		r.push(ctx, c, pushes)
	}
	_ = calls.Wait() // the calls return no errors
	return outcomes
}

// mayCall reports whether a call that begins now ends while the claim lasts. Later, another relay may have the rows.
func (r *Relay) mayCall(ctx context.Context, c *claim) bool {
	return ctx.Err() == nil && c.left() > r.CallTimeout+margin
}

// send calls the API. A call that has begun is not interrupted by a stop.
func (r *Relay) send(ctx context.Context, method, path string, body []byte, out any) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.CallTimeout)
	defer cancel()
	return r.Client.Do(ctx, method, path, body, out)
}

type batchAnswer struct {
	Results []struct {
		State string
		Error *client.Error
	}
}

// push pushes a batch. When the server refuses it as a whole, the halves are pushed: it is too large for that server,
// or one member is the cause.
func (r *Relay) push(ctx context.Context, c *claim, pushes []*outcome) {
	if !r.mayCall(ctx, c) {
		return
	}
	bodies := make([][]byte, len(pushes))
	for i, o := range pushes {
		bodies[i] = o.body
	}
	batch := slices.Concat([]byte(`{"jobs":[`), bytes.Join(bodies, []byte{','}), []byte("]}"))
	var answer batchAnswer
	err := r.send(ctx, http.MethodPost, "/v1/jobs", batch, &answer)
	switch status := refusalOf(err).Status; {
	case (status == http.StatusBadRequest || status == http.StatusUnprocessableEntity ||
		status == http.StatusRequestEntityTooLarge) && len(pushes) > 1:
		r.push(ctx, c, pushes[:len(pushes)/2])
		r.push(ctx, c, pushes[len(pushes)/2:])
		return
	case status == http.StatusForbidden: // no row can be carried
		err = fmt.Errorf("the token has no right to push: %w", errors.New(err.Error()))
	case err == nil && len(answer.Results) != len(pushes):
		err = fmt.Errorf("%d results for %d pushes", len(answer.Results), len(pushes))
	}
	for i, o := range pushes {
		err := err
		if err == nil && answer.Results[i].Error != nil {
			err = answer.Results[i].Error
		} else if err == nil && answer.Results[i].State == "spooled" { // a change or cancel would not find it yet
			err = errors.New("no shard is up")
		}
		r.judge(o, err)
	}
}

// refusalOf returns the server's answer in an error, or an empty one.
func refusalOf(err error) *client.Error {
	if e, ok := errors.AsType[*client.Error](err); ok {
		return e
	}
	return &client.Error{}
}

// judge says what the answer to a row's call means.
func (r *Relay) judge(o *outcome, err error) {
	switch e := refusalOf(err); {
	case err == nil:
		o.result, o.change.state = resultDone, gone
	case e.Status == http.StatusNotFound && o.row.Op != opPush:
		o.result, o.change.state = resultMissing, gone
	case e.Code == client.CodeGroupClosed:
		o.result, o.change.state = resultClosed, gone
	case e.Status/100 == 4 && e.Status != http.StatusUnauthorized && e.Status != http.StatusTooManyRequests:
		o.result, o.change = resultRefused, r.refusal(o.row, err)
	default: // not about this row
		o.result = resultUnavailable
		o.change = change{state: retrying, err: err.Error(), pause: max(e.RetryAfter, r.Pause)}
	}
}

// refusal counts a refusal. A row of a topic that is not allowed is set aside at once.
func (r *Relay) refusal(row *Row, err error) change {
	how := change{state: retrying, err: err.Error(), refusals: 1}
	if row.Attempts+1 >= r.Attempts || errors.Is(err, errTopic) {
		how.state = refused
	} else {
		how.pause = min(r.Pause<<min(row.Attempts, 10), time.Minute)
	}
	return how
}
