package relay

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/wakecall/wakecall/client"
)

// carry calls the API for the rows of a claim, in waves: no two rows of a wave have a name in common, and a wave is
// settled before the next begins. So at most one row of a key has been carried and is still there, and repeating it
// changes nothing that a later row has done.
func (r *Relay) carry(ctx context.Context, c *claim) (t tally, err error) {
	held := map[string]bool{} // names of rows that are not done
	for len(c.rows) > 0 {
		wave, later, outcomes := nextWave(c.rows, held)
		if len(wave) > 0 && ctx.Err() == nil && c.left() < r.Claim/2 {
			if err := r.Table.extend(context.WithoutCancel(ctx), c, r.Claim); err != nil {
				return t, err // its rows are another relay's, or will be
			}
		}
		outcomes = append(outcomes, r.call(ctx, c, wave)...)
		if err := r.settle(ctx, c, outcomes); err != nil {
			return t, err
		}
		for i := range outcomes {
			o := &outcomes[i]
			r.metrics.count(o)
			t.add(o, r.Attempts)
			for _, name := range o.row.names() {
				held[name] = held[name] || !o.isDone()
			}
		}
		c.rows = later
	}
	return t, nil
}

// tally sums up a round.
type tally struct {
	answered    bool          // a call was answered for its row
	asked       time.Duration // the longest pause that the server asked for
	unavailable string        // the first error of each kind
	refused     string
	aside       int // rows that were set aside
}

func (t *tally) add(o *outcome, attempts int) {
	t.asked = max(t.asked, o.pause)
	t.answered = t.answered || o.isDone() || o.result == resultRefused
	if o.result == resultUnavailable {
		t.unavailable = cmp.Or(t.unavailable, o.err)
	}
	if o.changeOf(attempts, 0).state == refused && !o.isDone() {
		t.refused = cmp.Or(t.refused, fmt.Sprintf("row %d: %s", o.row.Seq, o.err))
		t.aside++
	}
}

// nextWave splits rows, in the order of seq, into those to call now, those for later, and those that are held up.
func nextWave(rows []Row, held map[string]bool) (wave, later []Row, heldUp []outcome) {
	used, blocked := map[string]bool{}, map[string]bool{}
	for i := range rows {
		row := rows[i]
		isHeld, isUsed := false, false
		for _, name := range row.names() {
			isHeld = isHeld || held[name] || blocked[name]
			isUsed = isUsed || used[name]
		}
		for _, name := range row.names() {
			used[name] = true
			blocked[name] = blocked[name] || isHeld
		}
		switch {
		case isHeld:
			heldUp = append(heldUp, outcome{row: &rows[i]})
		case isUsed:
			later = append(later, row)
		default:
			wave = append(wave, row)
		}
	}
	return wave, later, heldUp
}

// settle is Table.settle, repeated until the claim has run out: the database may be restarting. Then other relays
// repeat its rows.
func (r *Relay) settle(ctx context.Context, c *claim, outcomes []outcome) error {
	for {
		err := r.Table.settle(context.WithoutCancel(ctx), c, outcomes, r.Attempts, r.Pause)
		if err == nil || c.left() < margin {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

const (
	batchRows  = 500
	batchBytes = 4 << 20
)

// call calls the API for the rows of a wave: pushes in batches, the others one by one.
func (r *Relay) call(ctx context.Context, c *claim, wave []Row) []outcome {
	outcomes := make([]outcome, len(wave))
	var calls errgroup.Group
	calls.SetLimit(concurrency)
	var batch []member
	size := 0
	flush := func() {
		if members := batch; len(members) > 0 {
			calls.Go(func() error { r.push(ctx, c, members); return nil })
		}
		batch, size = nil, 0
	}
	for i := range wave {
		o := &outcomes[i]
		o.row = &wave[i]
		req, err := o.row.request(r.Table.Name(), r.Topics)
		switch {
		case err != nil:
			o.result, o.err, o.aside = resultRefused, err.Error(), errors.Is(err, errTopic)
		case req.isPush:
			if len(batch) == batchRows || size+len(req.body) > batchBytes {
				flush()
			}
			batch, size = append(batch, member{o, req.body}), size+len(req.body)
		default:
			calls.Go(func() error {
				if r.mayCall(ctx, c) {
					o.judge(r.send(ctx, req.method, req.path, req.body, nil))
				}
				return nil
			})
		}
	}
	flush()
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

// member is a push in a batch.
type member struct {
	*outcome
	body []byte
}

type batchAnswer struct {
	Results []struct {
		State string `json:"state"`
		Error *struct {
			Status int    `json:"status"`
			Code   string `json:"code"`
			Detail string `json:"detail"`
			Field  string `json:"field"`
		} `json:"error"`
	} `json:"results"`
}

// push pushes a batch. When the server refuses it as a whole, the halves are pushed: one member is the cause.
func (r *Relay) push(ctx context.Context, c *claim, members []member) {
	if !r.mayCall(ctx, c) {
		return
	}
	var answer batchAnswer
	err := r.send(ctx, http.MethodPost, "/v1/jobs", batchOf(members), &answer)
	if e, ok := errors.AsType[*client.Error](err); ok && isMalformed(e) && len(members) > 1 {
		r.push(ctx, c, members[:len(members)/2])
		r.push(ctx, c, members[len(members)/2:])
		return
	}
	if err == nil && len(answer.Results) != len(members) {
		err = fmt.Errorf("%d results for %d pushes", len(answer.Results), len(members))
	}
	if e, ok := errors.AsType[*client.Error](err); ok && e.Status == http.StatusForbidden {
		err = fmt.Errorf("the token has no right to push: %w", errors.New(e.Error())) // no row can be carried
	}
	for i, m := range members {
		switch {
		case err != nil:
			m.judge(err)
		case answer.Results[i].Error != nil:
			e := answer.Results[i].Error
			m.judge(&client.Error{Status: e.Status, Code: e.Code, Detail: e.Detail, Field: e.Field})
		case answer.Results[i].State == "spooled": // a change or cancel would not find it yet
			m.result, m.err = resultUnavailable, "no shard is up"
		default:
			m.result = resultDone
		}
	}
}

func isMalformed(e *client.Error) bool {
	return e.Status == http.StatusBadRequest || e.Status == http.StatusUnprocessableEntity ||
		e.Status == http.StatusRequestEntityTooLarge
}

func batchOf(members []member) []byte {
	b := bytes.NewBufferString(`{"jobs":[`)
	for i, m := range members {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(m.body)
	}
	b.WriteString("]}")
	return b.Bytes()
}

// judge says what the answer to a row's call means.
func (o *outcome) judge(err error) {
	if err == nil {
		o.result = resultDone
		return
	}
	o.result, o.err = resultUnavailable, err.Error()
	e, ok := errors.AsType[*client.Error](err)
	if !ok {
		return
	}
	o.pause = e.RetryAfter
	switch {
	case e.Status == http.StatusNotFound && o.row.Op != opPush:
		o.result = resultMissing
	case e.Code == client.CodeGroupClosed:
		o.result = resultClosed
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusTooManyRequests:
		// not about this row: it waits
	case e.Status/100 == 4:
		o.result, o.pause = resultRefused, 0
	}
}
