package lmstfy

import (
	"errors"
	"math"
	"net/http"
	"time"

	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/internal/queue/pull"
	"github.com/wakecall/wakecall/internal/store"
)

// maxCount is the most jobs that a consume may ask for.
const maxCount = 100

func (g *Gateway) consume(r *request) error {
	ttr, err := r.seconds("ttr", g.Defaults.TTR)
	if err != nil {
		return err
	}
	timeout, err := r.seconds("timeout", g.Defaults.Timeout)
	if err != nil {
		return err
	}
	count, err := r.number("count", 1, 32)
	if err != nil || count < 1 || count > maxCount {
		return bad("invalid count")
	}
	if len(r.queues) == 0 {
		return bad("invalid queue name(s)")
	}
	if err := pull.CheckRequest(len(r.queues), g.MaxTopics); err != nil {
		return bad(err.Error())
	}
	topics := make([]string, len(r.queues))
	for i, name := range r.queues {
		topics[i] = g.Pools.topicOf(r.pool, r.namespace, name)
	}
	gateway.Patient(r.w, r.Request)
	jobs, err := gateway.Take(r.Context(), g.Workers, pull.Request{
		Wait: timeout, Token: r.pool + "/" + r.namespace + "/" + r.token, TakeRequest: store.TakeRequest{
			Topics: topics, Order: store.Listed, Max: int(count), TTR: max(ttr, time.Millisecond),
		},
	})
	if limit, ok := errors.AsType[*pull.LimitError](err); ok {
		return &gateway.Problem{Status: http.StatusTooManyRequests, Body: object{"msg": limit.Error()}}
	}
	if err != nil {
		return err
	}
	if len(jobs) == 0 {
		return r.answer(http.StatusNotFound, object{"msg": "no job available"})
	}
	if err := r.answerJobs(jobs, count > 1); err != nil {
		g.Release(r.Context(), g.Queue, jobs)
		return nil // nobody would read the answer
	}
	g.metrics.consumed(r, jobs)
	return nil
}

// answerJobs answers with an object for one job, or an array for several.
func (r *request) answerJobs(jobs []store.Job, array bool) error {
	list := make([]described, len(jobs))
	for i := range jobs {
		job := &jobs[i]
		list[i] = r.describe(job, job.MaxAttempts-job.Lease.Attempt)
		list[i].Msg = "new job"
	}
	var value any = list
	if !array {
		value = list[0]
	}
	return gateway.WriteJSON(r.w, jsonType, http.StatusOK, value)
}

// described is a job as clients see it.
type described struct {
	Attributes  map[string]string `json:"attributes"`
	Data        []byte            `json:"data"`
	ElapsedMS   int64             `json:"elapsed_ms"`
	JobID       string            `json:"job_id"`
	Msg         string            `json:"msg,omitempty"`
	Namespace   string            `json:"namespace"`
	Queue       string            `json:"queue"`
	RemainTries int               `json:"remain_tries"`
	TTL         int64             `json:"ttl"`
}

func (r *request) describe(job *store.Job, remaining int) described {
	now := time.Now()
	return described{
		Attributes: job.Headers, Data: job.Body, ElapsedMS: elapsedMS(job.ID, now), JobID: job.ID,
		Namespace: r.namespace, Queue: queueOf(job.Topic), RemainTries: max(0, remaining), TTL: secondsLeft(job, now),
	}
}

// expired reports whether a job's ttl has passed. The queue hands such a job to nobody, and removes it later.
func expired(job *store.Job) bool {
	if job.State == store.Dead {
		return job.DeadReason == "expired"
	}
	return !job.ExpiresAt.IsZero() && !time.Now().Before(job.ExpiresAt)
}

// secondsLeft returns how long a job may still be consumed, rounded; 0 means forever.
func secondsLeft(job *store.Job, now time.Time) int64 {
	if job.ExpiresAt.IsZero() || job.State == store.Dead {
		return 0
	}
	return int64(math.Round(max(0, job.ExpiresAt.Sub(now).Seconds())))
}
