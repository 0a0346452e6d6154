package beanstalk

import (
	"errors"

	"github.com/wakecall/wakecall/queue"
)

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
	if errors.Is(err, queue.ErrNotFound) { // another connection has it
		return k.reply("NOT_FOUND")
	}
	if err != nil {
		return err
	}
	return k.reserved(leased)
}
