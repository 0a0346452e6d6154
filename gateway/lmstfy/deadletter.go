package lmstfy

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

func (g *Gateway) deadSize(r *request) error {
	counts, err := g.counts(r.Context(), r.topic())
	if err != nil {
		return err
	}
	return r.answerSize(counts.Dead)
}

func (g *Gateway) size(r *request) error {
	counts, err := g.counts(r.Context(), r.topic())
	if err != nil {
		return err
	}
	return r.answerSize(counts.Ready)
}

func (r *request) answerSize(n int64) error {
	return r.answer(http.StatusOK, object{"namespace": r.namespace, "queue": r.queues[0], "size": n})
}

// destroy deletes the ready jobs. As in lmstfy, jobs in other states are kept.
func (g *Gateway) destroy(r *request) error {
	if err := g.deleteReady(r.Context(), r.topic()); err != nil {
		return err
	}
	r.w.WriteHeader(http.StatusNoContent)
	return nil
}

func (g *Gateway) peekDead(r *request) error {
	counts, err := g.counts(r.Context(), r.topic())
	if err != nil {
		return err
	}
	head := ""
	if counts.Dead > 0 {
		job, err := g.oldest(r.Context(), r.topic(), store.Dead)
		if err != nil {
			return err
		}
		if job != nil {
			head = job.ID
		}
	}
	return r.answer(http.StatusOK, object{
		"deadletter_head": head, "deadletter_size": counts.Dead, "namespace": r.namespace, "queue": r.queues[0],
	})
}

// respawn makes dead jobs ready again, oldest first, each with one try and a new ttl.
func (g *Gateway) respawn(r *request) error {
	limit, err := r.limit()
	if err != nil {
		return err
	}
	ttl, err := r.signed("ttl", int64(g.Defaults.TTL/time.Second))
	if err != nil || ttl < 0 {
		return bad("invalid ttl")
	}
	life := time.Duration(min(ttl, math.MaxUint32)) * time.Second
	n, err := g.Queue.EndDead(r.Context(), store.DeadCall{
		Kind: store.Redriven, Topic: r.topic(), Limit: limit, As: &store.Renewal{MaxAttempts: 1, TTL: life},
	})
	if err != nil {
		return err
	}
	g.metrics.respawned.WithLabelValues(r.pool).Add(float64(n))
	return r.answer(http.StatusOK, object{"count": n, "msg": "respawned"})
}

func (g *Gateway) deleteDead(r *request) error {
	limit, err := r.limit()
	if err != nil {
		return err
	}
	dead := store.DeadCall{Kind: store.DeadDeleted, Topic: r.topic(), Limit: limit}
	if _, err := g.Queue.EndDead(r.Context(), dead); err != nil {
		return err
	}
	r.w.WriteHeader(http.StatusNoContent)
	return nil
}

func (r *request) limit() (int, error) {
	n, err := r.signed("limit", 1)
	if err != nil || n <= 0 {
		return 0, bad("invalid limit")
	}
	return int(min(n, math.MaxInt32)), nil
}

func (r *request) signed(name string, missing int64) (int64, error) {
	if !r.query.Has(name) {
		return missing, nil
	}
	return strconv.ParseInt(r.query.Get(name), 10, 64)
}
