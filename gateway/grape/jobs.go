package grape

import (
	"encoding/base64"
	"errors"
	"time"

	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

const (
	minTTR  = time.Second // minimum; shorter TTRs are raised to it
	maxTTR  = registry.MaxPullTTR
	maxTake = store.TakeLimit
	// maxAnswer bounds the data of an answer, apart from its last step, because a client may request any number of
	// jobs.
	maxAnswer = 16 << 20
)

// produce stores a job. It keeps an existing job with the id if that is delayed or ready, and replaces it otherwise.
func (g *Gateway) produce(r *request) (any, error) {
	dtr, err := r.duration("dtr", codeDTR)
	if err != nil {
		return nil, err
	}
	ttr, err := r.duration("ttr", codeTTR)
	if err != nil {
		return nil, err
	}
	id, topic, err := g.named(r)
	if err != nil {
		return nil, err
	}
	if gateway.IsOffline(topic, g.registry.Snapshot()) {
		return nil, bad(codeOffline, "tube '"+r.query.Get("tube")+"' is offline")
	}
	body, err := r.body()
	if err != nil {
		return nil, err
	}
	push := store.Push{
		Topic: topic, ID: id, Body: body, ContentType: store.TypeOf(body), Delay: min(dtr, store.MaxDelay),
		TTR:      min(max(ttr, minTTR), maxTTR),
		Priority: store.Normal, OnDuplicate: store.Keep,
	}
	result := g.queue.Push(r.Context(), push)
	if result.Err != nil || !result.Duplicate {
		return true, result.Err
	}
	if s := result.Job.State; s == store.Delayed || s == store.Ready {
		return false, nil
	}
	push.OnDuplicate = store.Replace
	return true, g.queue.Push(r.Context(), push).Err
}

// named returns the job's id and the topic of its tube.
func (g *Gateway) named(r *request) (id, topic string, err error) {
	if id, err = r.id(); err != nil {
		return "", "", err
	}
	topic, err = g.tube(r)
	return id, topic, err
}

// ends returns a handler that ends a job if it is in one of the given states, and answers whether it was.
func (g *Gateway) ends(verb store.Verb, in ...store.State) func(*request) (any, error) {
	return func(r *request) (any, error) { return g.end(r, store.End{Verb: verb, In: in}) }
}

// delaying is like ends, but with a delay, which the job's history keeps with what was done.
func (g *Gateway) delaying(verb store.Verb, done string, in ...store.State) func(*request) (any, error) {
	return func(r *request) (any, error) {
		dtr, err := r.duration("dtr", codeDTR)
		if err != nil {
			return nil, err
		}
		dtr = min(dtr, store.MaxDelay)
		return g.end(r, store.End{
			Verb: verb, In: in, Delay: dtr, Retry: []time.Duration{dtr},
			Attempt: gateway.Delayed(done, dtr),
		})
	}
}

func (g *Gateway) end(r *request, e store.End) (any, error) {
	id, topic, err := g.named(r)
	if err != nil {
		return nil, err
	}
	e.Ref = store.Ref{Topic: topic, ID: id}
	_, found, err := gateway.End(r.Context(), g.queue, e)
	return found, err
}

type job struct {
	ID   string `json:"id"`
	DTR  int64  `json:"dtr"`  // ms
	TTR  int64  `json:"ttr"`  // ms
	NOE  int    `json:"noe"`  // executions before this one
	Data string `json:"data"` // base64url without padding
}

func shown(j *store.Job, ttr time.Duration) job {
	return job{
		ID: j.ID, DTR: gateway.DelayOf(j).Milliseconds(), TTR: ttr.Milliseconds(), NOE: j.Attempts,
		Data: base64.RawURLEncoding.EncodeToString(j.Body),
	}
}

func (g *Gateway) consume(r *request) (any, error) {
	topic, err := g.tube(r)
	if err != nil {
		return nil, err
	}
	list, size := []job{}, 0
	for most := r.most(); len(list) < most && size < maxAnswer; {
		taken, err := g.queue.Take(r.Context(), store.TakeRequest{
			Topics: []string{topic}, Max: min(most-len(list), maxTake), Order: store.Listed,
		})
		if err != nil && len(list) == 0 {
			return nil, err
		}
		if len(taken) == 0 {
			break
		}
		r.taken = append(r.taken, taken...)
		for i := range taken {
			list = append(list, shown(&taken[i], taken[i].LeaseUntil.Sub(taken[i].Lease.Taken)))
			size += len(taken[i].Body)
		}
	}
	return list, nil
}

// peek shows failed jobs.
func (g *Gateway) peek(r *request) (any, error) {
	topic, err := g.tube(r)
	if err != nil {
		return nil, err
	}
	jobs, _, err := g.queue.List(r.Context(), topic, store.Dead, "", min(r.most(), maxPeek))
	if err != nil {
		return nil, err
	}
	list, size := []job{}, 0
	for i := range jobs {
		if size >= maxAnswer {
			break
		}
		whole, err := g.queue.Get(r.Context(), topic, jobs[i].ID) // a list omits long bodies
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, shown(whole, gateway.TTROf(whole, g.registry.Snapshot())))
		size += len(whole.Body)
	}
	return list, nil
}

const maxPeek = 1000
