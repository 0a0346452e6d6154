package lmstfy

import (
	"errors"
	"net/http"

	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/internal/store"
)

// ack ends a job, whatever its state. It also succeeds if the job does not exist.
func (g *Gateway) ack(r *request) error {
	if err := g.endNamed(r); err != nil {
		return err
	}
	r.w.WriteHeader(http.StatusNoContent)
	return nil
}

func (g *Gateway) endNamed(r *request) error {
	done, _, err := gateway.Remove(r.Context(), g.Queue, r.topic(), r.PathValue("id"))
	if err == nil && done.Was == store.Running {
		g.metrics.acked(r, done.CreatedAt)
	}
	return err
}

func (g *Gateway) peek(r *request) error {
	job, err := g.oldest(r.Context(), r.topic(), store.Ready)
	if err != nil {
		return err
	}
	if job == nil {
		return refuse(http.StatusNotFound, "the queue is empty")
	}
	if expired(job) { // as in lmstfy, only its id is left
		return r.answer(http.StatusOK, r.describe(&store.Job{Topic: job.Topic, ID: job.ID}, 0))
	}
	return r.answer(http.StatusOK, r.describe(job, job.MaxAttempts-job.Attempts))
}

// peekJob shows a job in any state. As in lmstfy, its remaining tries are always 0.
func (g *Gateway) peekJob(r *request) error {
	job, err := g.Queue.Get(r.Context(), r.topic(), r.PathValue("id"))
	if errors.Is(err, store.ErrNotFound) || err == nil && expired(job) {
		return refuse(http.StatusNotFound, "job not found")
	}
	if err != nil {
		return err
	}
	return r.answer(http.StatusOK, r.describe(job, 0))
}
