package beanstalk

import (
	"errors"

	"github.com/wakecall/wakecall/pull"
	"github.com/wakecall/wakecall/queue"
)

// reserveTries is how often reserve-job tries to be the one who takes the job that it put first.
const reserveTries = 5

// reserveJob reserves a job that is ready, delayed or buried: it puts the job first in its topic and takes it from
// there.
func (k *conn) reserveJob(id uint64) error {
	for range reserveTries {
		job, err := k.find(id)
		if err != nil {
			return err
		}
		if job == nil || job.State == queue.Running {
			return k.reply("NOT_FOUND")
		}
		leased, err := k.takeFirst(job)
		if err != nil {
			return err
		}
		if leased != nil {
			return k.reserved(leased)
		}
	}
	return k.reply("NOT_FOUND")
}

// takeFirst puts a job first and takes it; nil: somebody else was quicker.
func (k *conn) takeFirst(job *queue.Job) (*queue.Leased, error) {
	if job.State == queue.Delayed {
		if _, err := k.queue.RunNow(k.ctx, job.Topic, job.ID); err != nil {
			return nil, unlessMissing(err)
		}
	}
	done := k.queue.End(k.ctx, []queue.Ending{{
		Ref: queue.Ref{Topic: job.Topic, ID: job.ID}, In: []queue.State{queue.Ready, queue.Dead}, Verb: queue.Untake,
	}})[0]
	if done.Err != nil {
		return nil, unlessMissing(done.Err)
	}
	jobs, err := k.workers.Take(k.ctx, pull.Request{
		TakeRequest: queue.TakeRequest{Topics: []string{job.Topic}, Order: queue.Listed, Max: 1},
	})
	if err != nil || len(jobs) == 0 {
		return nil, err
	}
	if jobs[0].ID == job.ID {
		return &jobs[0], nil
	}
	return nil, k.queue.End(k.ctx, []queue.Ending{{Lease: jobs[0].Lease, Verb: queue.Untake}})[0].Err
}

// unlessMissing leaves out the error of a job that changed meanwhile.
func unlessMissing(err error) error {
	if missing(err) || errors.Is(err, queue.ErrRunning) {
		return nil
	}
	return err
}
