package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/wakecall/wakecall/internal/store"
)

// leaseVerb is a way to end, or extend, a lease.
type leaseVerb struct {
	name  string // the last part of the path
	verb  store.Verb
	field string // of the request
}

var leaseVerbs = []leaseVerb{
	{"ack", store.Done, "result"}, {"release", store.Release, "delay"}, {"fail", store.Fail, "reason"},
	{"bury", store.Bury, "reason"}, {"extend", store.Extend, "ttr"},
}

const (
	maxEndBytes  = 64 << 10
	maxEnds      = 1000
	maxEndsBytes = 8 << 20
	maxReason    = 512
)

// endLease returns the route for one lease and one verb.
func (s *Server) endLease(as leaseVerb) handler {
	return func(c *call) error {
		lease, err := pathText(c, "lease")
		if err != nil {
			return err
		}
		return s.withBody(c, maxEndBytes, func(body *buffer) error {
			e, err := decodeEnd(body.b, as)
			if err != nil {
				return err
			}
			if err := s.mayEnd(c, &e, lease); err != nil {
				return err
			}
			d := s.opts.Workers.End(c.editing(), []store.End{e})[0]
			s.metrics.ended(as.name, d.Err)
			if d.Err != nil {
				return leaseProblem(d.Err)
			}
			if e.Verb == store.Extend {
				return s.answer(c, http.StatusOK, &extendedView{d.At})
			}
			return c.NoContent(http.StatusNoContent)
		})
	}
}

type extendedView struct {
	LeasedUntil time.Time `json:"leased_until"`
}

// mayEnd sets the lease and checks the right on its topic. A malformed lease is treated as expired.
func (s *Server) mayEnd(c *call, e *store.End, lease string) (err error) {
	if e.Lease, err = store.ParseLease(lease); err != nil {
		return leaseProblem(err)
	}
	return allow(c.token, mayConsume, e.Lease.Topic)
}

func leaseProblem(err error) error {
	if errors.Is(err, store.ErrLease) {
		return &Problem{Status: http.StatusConflict, Code: codeLeaseOver, cause: err,
			Detail: "lease expired or already ended; another worker may have the job"}
	}
	return err
}

// endRequest is the body of a request for one lease. The verb determines which field it may have.
type endRequest struct {
	Lease  field[string] `json:"lease"` // in a batch
	Result anything      `json:"result"`
	Delay  field[delay]  `json:"delay"`
	Reason field[string] `json:"reason"`
	TTR    field[ttr]    `json:"ttr"`
}

func decodeEnd(data []byte, as leaseVerb) (e store.End, err error) {
	var r endRequest
	if len(data) > 0 {
		err = decode(data, &r)
	}
	if err == nil && r.Lease.given {
		err = unknownField("lease", as.field)
	}
	if err != nil {
		return e, err
	}
	return r.end(data, as)
}

func (r *endRequest) end(request []byte, as leaseVerb) (e store.End, err error) {
	for _, f := range [...]struct {
		name  string
		given bool
	}{{"result", r.Result.given}, {"delay", r.Delay.given}, {"reason", r.Reason.given}, {"ttr", r.TTR.given}} {
		if f.given && f.name != as.field {
			return e, unknownField(f.name, as.field)
		}
	}
	if n := len(r.Reason.value); n > maxReason {
		return e, outOfRange("reason", "%d bytes; the limit is %d", n, maxReason)
	}
	e = store.End{Verb: as.verb, Delay: time.Duration(r.Delay.value) + time.Duration(r.TTR.value)} // one has it
	if r.Reason.given || r.Result.given {
		e.Attempt = &store.Attempt{Error: r.Reason.value, Answer: string(r.Result.of(request))}
	}
	if r.Result.given {
		e.Answer = store.WorkerAnswer(r.Result.of(request))
	}
	return e, nil
}

// endedView is the result of one member of a batch.
type endedView struct {
	Lease         string       `json:"lease"`
	State         store.State  `json:"state,omitzero"` // done if the job is removed
	LeasedUntil   time.Time    `json:"leased_until,omitzero"`
	NextAttemptAt time.Time    `json:"next_attempt_at,omitzero"` // when a delayed job becomes ready
	Error         *problemView `json:"error,omitzero"`
}

// endLeases ends many leases. Each has its own result, in the order of the request.
func (s *Server) endLeases(c *call) error {
	return s.withBody(c, maxEndsBytes, func(body *buffer) error {
		items, err := decodeEnds(body.b)
		if err != nil {
			return err
		}
		views := make([]endedView, len(items))
		var allowed []int
		var todo []store.End
		for i, item := range items {
			views[i].Lease = item.Lease.value
			if err := s.mayEnd(c, &item.end, item.Lease.value); err != nil {
				views[i].setError(err)
				continue
			}
			allowed, todo = append(allowed, i), append(todo, item.end)
		}
		for k, d := range s.opts.Workers.End(context.WithoutCancel(c.ctx()), todo) {
			s.metrics.ended(items[allowed[k]].as.name, d.Err)
			views[allowed[k]].set(&d)
		}
		return s.answer(c, http.StatusOK, map[string]any{"results": views})
	})
}

func (v *endedView) setError(err error) {
	view := problemOf(leaseProblem(err)).view()
	v.Error = &view
}

func (v *endedView) set(d *store.Ended) {
	if d.Err != nil {
		v.setError(d.Err)
		return
	}
	v.State = cmp.Or(d.State, "done")
	switch d.State {
	case store.Running:
		v.LeasedUntil = d.At
	case store.Delayed:
		v.NextAttemptAt = d.At
	}
}

// leaseItem is a lease of a batch: a string, or an object that may have another field.
type leaseItem struct {
	endRequest
	at  int64 // the position in the request
	as  leaseVerb
	end store.End // without the lease
}

// UnmarshalJSONFrom reads both forms.
func (l *leaseItem) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	l.at = d.InputOffset()
	if d.PeekKind() == jsontext.KindBeginObject {
		return json.UnmarshalDecode(d, &l.endRequest)
	}
	return json.UnmarshalDecode(d, &l.Lease)
}

// decodeEnds reads {"ack":[…],"release":[…],…}. It returns the leases in the order of the request.
func decodeEnds(data []byte) ([]*leaseItem, error) {
	var r struct {
		Ack     list[leaseItem] `json:"ack"`
		Release list[leaseItem] `json:"release"`
		Fail    list[leaseItem] `json:"fail"`
		Bury    list[leaseItem] `json:"bury"`
		Extend  list[leaseItem] `json:"extend"`
	}
	lists := []*list[leaseItem]{&r.Ack, &r.Release, &r.Fail, &r.Bury, &r.Extend} // as leaseVerbs
	for _, l := range lists {
		l.most = maxEnds
	}
	if err := decode(data, &r); err != nil {
		return nil, err
	}
	var items []*leaseItem
	for i, l := range lists {
		for k := range l.items {
			l.items[k].as = leaseVerbs[i]
			items = append(items, &l.items[k])
		}
	}
	if n := len(items); n == 0 || n > maxEnds {
		return nil, outOfRange("ack", "must have 1 to %d leases in all lists together, got %d", maxEnds, n)
	}
	slices.SortFunc(items, func(a, b *leaseItem) int { return cmp.Compare(a.at, b.at) })
	for _, item := range items {
		if item.Lease.value == "" {
			return nil, badField("lease", "required")
		}
		var err error
		if item.end, err = item.endRequest.end(data, item.as); err != nil {
			return nil, err
		}
	}
	return items, nil
}
