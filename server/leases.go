package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
)

// endings maps the last part of the path to the verb for the lease, and the members of the request.
var endings = map[string]struct {
	verb   queue.Verb
	fields []string
}{
	"ack":     {queue.Ack, []string{"result"}},
	"release": {queue.GiveBack, []string{"delay"}},
	"fail":    {queue.Fail, []string{"reason"}},
	"bury":    {queue.BuryLeased, []string{"reason"}},
	"extend":  {queue.ExtendLeased, []string{"ttr"}},
}

const (
	maxEndBytes  = 64 << 10
	maxEndings   = 1000
	maxEndsBytes = 8 << 20
	maxReason    = 512
)

// endLease returns the route for one lease and one verb.
func (s *Server) endLease(name string) handler {
	return func(c *call) error {
		lease, err := pathText(c, "lease")
		if err != nil {
			return err
		}
		return s.withBody(c, maxEndBytes, func(body *buffer) error {
			e := queue.Ending{Lease: lease, Verb: endings[name].verb}
			if len(body.b) > 0 {
				if err := decodeFields(body.b, "an object", endings[name].fields, setsEnding(&e)); err != nil {
					return err
				}
			}
			if err := s.mayEnd(c, lease); err != nil {
				return err
			}
			if err := s.writable(); err != nil {
				return err
			}
			d := s.opts.Workers.End(c.editing(), []queue.Ending{e})[0]
			s.metrics.ended(&d)
			if d.Err != nil {
				return leaseProblem(d.Err)
			}
			if e.Verb == queue.ExtendLeased {
				return s.answer(c, http.StatusOK, &extendedView{instant(d.At)})
			}
			return c.NoContent(http.StatusNoContent)
		})
	}
}

type extendedView struct {
	LeasedUntil instant `json:"leased_until"`
}

// mayEnd checks the right on the topic of a lease. A malformed lease counts as one that is over.
func (s *Server) mayEnd(c *call, lease string) error {
	ref, err := queue.LeaseOf(lease)
	if err != nil {
		return leaseProblem(err)
	}
	return allow(c.token, mayConsume, ref.Topic)
}

func leaseProblem(err error) error {
	if errors.Is(err, queue.ErrLease) {
		return &Problem{Status: http.StatusConflict, cause: err,
			Detail: "the lease is over: it ended or expired, and another worker may have the job"}
	}
	return err
}

// setsEnding returns a reader of the fields of an ending.
func setsEnding(e *queue.Ending) func(d *decoder, name string) error {
	return func(d *decoder, name string) error {
		if name == "result" { // any value
			value, err := d.raw()
			e.Result = string(value)
			return err
		}
		v, err := d.ReadValue()
		if err != nil {
			return err
		}
		return setEnding(e, name, v)
	}
}

func setEnding(e *queue.Ending, name string, v jsontext.Value) (err error) {
	switch name {
	case "lease":
		e.Lease, err = textOf(name, v)
	case "delay":
		e.Delay, err = delayOf(name, v)
	case "ttr":
		e.TTR, err = ttrOf(name, v, registry.MaxPullTTR)
	case "reason":
		e.Error, err = textOf(name, v)
		if err == nil && len(e.Error) > maxReason {
			err = outOfRange(name, "%d bytes; the limit is %d", len(e.Error), maxReason)
		}
	}
	return err
}

// endedView is the result of one member of a batch.
type endedView struct {
	Lease       string       `json:"lease"`
	State       queue.State  `json:"state,omitzero"` // done when the job is removed
	LeasedUntil instant      `json:"leased_until,omitzero"`
	NextAt      instant      `json:"next_at,omitzero"` // when a delayed job becomes ready
	Error       *problemView `json:"error,omitzero"`
}

// endLeases ends many leases, each with its own result, in the order of the request.
func (s *Server) endLeases(c *call) error {
	return s.withBody(c, maxEndsBytes, func(body *buffer) error {
		list, err := readEndings(body.b)
		if err != nil {
			return err
		}
		if err := s.writable(); err != nil {
			return err
		}
		views := make([]endedView, len(list))
		var allowed []int
		var todo []queue.Ending
		for i := range list {
			views[i].Lease = list[i].Lease
			if err := s.mayEnd(c, list[i].Lease); err != nil {
				views[i].setError(err)
				continue
			}
			allowed, todo = append(allowed, i), append(todo, list[i])
		}
		for k, d := range s.opts.Workers.End(context.WithoutCancel(c.ctx()), todo) {
			s.metrics.ended(&d)
			views[allowed[k]].set(&d)
		}
		return s.answer(c, http.StatusOK, map[string]any{"results": views})
	})
}

func (v *endedView) setError(err error) {
	view := problemOf(leaseProblem(err)).view()
	v.Error = &view
}

func (v *endedView) set(d *queue.Ended) {
	if d.Err != nil {
		v.setError(d.Err)
		return
	}
	v.State = cmp.Or(d.State, "done")
	switch d.State {
	case queue.Running:
		v.LeasedUntil = instant(d.At)
	case queue.Delayed:
		v.NextAt = instant(d.At)
	}
}

// readEndings reads {"ack":[…],"release":[…],…}, whose members are leases, or objects with a lease.
func readEndings(data []byte) (list []queue.Ending, err error) {
	names := []string{"ack", "release", "fail", "bury", "extend"}
	err = decodeFields(data, `an object like {"ack":["LEASE"]}`, names, func(d *decoder, name string) error {
		kind := endings[name]
		return d.array(name, func() error {
			if len(list) == maxEndings {
				return outOfRange(name, "more than %d leases; send them in several requests", maxEndings)
			}
			e := queue.Ending{Verb: kind.verb}
			err := readMember(d, name, &e, kind.fields)
			list = append(list, e)
			return err
		})
	})
	if err == nil && len(list) == 0 {
		err = outOfRange("ack", "no lease is named; give 1 to %d", maxEndings)
	}
	return list, err
}

func readMember(d *decoder, name string, e *queue.Ending, fields []string) (err error) {
	if d.PeekKind() == '{' {
		err = d.object("an object", onceEach(append([]string{"lease"}, fields...), setsEnding(e)))
		if err == nil && e.Lease == "" {
			err = badField("lease", "missing")
		}
		return err
	}
	e.Lease, err = d.text(name)
	return err
}
