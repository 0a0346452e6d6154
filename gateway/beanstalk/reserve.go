package beanstalk

import (
	"context"
	"errors"
	"time"

	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/internal/queue/pull"
	"github.com/wakecall/wakecall/internal/store"
)

func (k *conn) reserveForever([]string, []byte) error { return k.reserve(time.Time{}) }

// maxTimeout is beanstalkd's maximum, in seconds.
const maxTimeout = 1<<31 - 1

func (k *conn) reserveWithTimeout(args []string, _ []byte) error {
	seconds, ok := number(args[0], 32)
	if !ok || seconds > maxTimeout {
		return errBadFormat
	}
	return k.reserve(time.Now().Add(time.Duration(seconds) * time.Second))
}

// reserve takes the most urgent ready job of the watched tubes. It waits until the given time, or forever if it is
// zero. A job that is due when the time is up is reserved, so the last take begins after it.
func (k *conn) reserve(until time.Time) error {
	k.work()
	soon := k.deadline()
	wait := time.Duration(0) // the first take does not wait
	for {
		now := time.Now()
		job, err := k.takeOne(wait)
		if err != nil {
			return err
		}
		if job != nil && foreign(job.ID) {
			if err := k.buryForeign(job); err != nil {
				return err
			}
			wait = 0
			continue
		}
		if job != nil {
			return k.reserved(job)
		}
		switch {
		case !soon.IsZero() && !now.Before(soon):
			return k.reply("DEADLINE_SOON")
		case !until.IsZero() && !now.Before(until), k.waits.Err() != nil:
			return k.reply("TIMED_OUT")
		}
		wait = forEver
		for _, end := range []time.Time{soon, until} {
			if !end.IsZero() {
				wait = min(wait, time.Until(end))
			}
		}
	}
}

// work counts the connection as a worker.
func (k *conn) work() {
	if !k.works {
		k.works = true
		k.counts.workers.Add(1)
	}
}

// forEver is how long one step of a reserve without a timeout waits.
const forEver = 10 * time.Minute

// takeOne takes a job from the watched tubes that are not paused. It returns nil after wait, when the plan may have
// changed, or when the client has closed its side.
func (k *conn) takeOne(wait time.Duration) (*store.Job, error) {
	p := k.tubes.plan(k.watched)
	if wait > 0 {
		defer k.waiting()()
		if !p.resumes.IsZero() {
			wait = max(min(wait, time.Until(p.resumes)), time.Millisecond)
		}
	}
	ctx, cancel := context.WithCancel(k.ctx)
	defer cancel()
	if wait > 0 {
		defer context.AfterFunc(p.changed, cancel)()
		defer context.AfterFunc(k.waits, cancel)()
	}
	if len(p.topics) == 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		return nil, k.ctx.Err()
	}
	jobs, err := k.workers.Take(ctx, pull.Request{
		TakeRequest: store.TakeRequest{Topics: p.topics, Order: store.Ordered, Max: 1}, Wait: wait,
	})
	if len(jobs) > 0 {
		return &jobs[0], nil
	}
	if errors.Is(err, context.Canceled) {
		err = k.ctx.Err() // nil unless the connection has ended
	}
	return nil, err
}

// waiting counts the connection as waiting until the returned function is called. A waiting connection may be closed,
// because no job is on the way to it.
func (k *conn) waiting() func() {
	_ = k.c.End()
	count := func(n int) {
		k.counts.waiting.Add(int64(n))
		for _, name := range k.watched {
			k.tubes.edit(name, func(t *tube) { t.waiting += n })
		}
	}
	count(1)
	return func() {
		count(-1)
		k.c.Begin()
	}
}

// foreign reports whether an id is not one of beanstalkd's, because the job was pushed through another interface.
func foreign(id string) bool {
	n, ok := number(id, 64)
	return !ok || format(n) != id
}

const foreignError = "its id is not a number, so beanstalk clients cannot name it"

// buryForeign buries a job with a foreign id, so that it does not block others.
func (k *conn) buryForeign(job *store.Job) error {
	k.Log.Warn("bury a job: "+foreignError, "topic", job.Topic, "id", job.ID)
	e := store.End{Lease: job.Lease, Verb: store.Bury, Attempt: &store.Attempt{Error: foreignError}}
	_, _, err := gateway.End(k.ctx, k.queue, e)
	return err
}

// reserved replies to a reserve and stores the lease.
func (k *conn) reserved(job *store.Job) error {
	id, _ := number(job.ID, 64)
	ttr := job.LeaseUntil.Sub(job.Lease.Taken) // it may be the topic's
	k.held[id] = &held{job.Lease, ttr, time.Now().Add(ttr)}
	k.finder.Met(job.ID, job.Topic)
	return k.replyJob("RESERVED", job.ID, job.Body)
}

// reserveJob reserves a job that is ready, delayed or buried, even in a paused tube.
func (k *conn) reserveJob(id uint64) error {
	job, err := k.find(id)
	if err != nil {
		return err
	}
	if job == nil {
		return k.reply("NOT_FOUND")
	}
	leased, err := k.queue.TakeByID(k.ctx, job.Topic, job.ID)
	if errors.Is(err, store.ErrNotFound) { // reserved by another connection
		return k.reply("NOT_FOUND")
	}
	if err != nil {
		return err
	}
	k.work()
	return k.reserved(leased)
}
