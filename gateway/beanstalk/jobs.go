package beanstalk

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/internal/store"
)

// Limits of jobs. Longer times are cut to these.
const (
	maxTTR   = 24 * time.Hour
	maxDelay = store.MaxDelay
	urgent   = 1024 // priorities below are urgent in the statistics
)

func ttrOf(seconds uint64) time.Duration {
	return min(time.Duration(max(1, seconds))*time.Second, maxTTR)
}

func delayOf(seconds uint64) time.Duration { return min(time.Duration(seconds)*time.Second, maxDelay) }

// levelOf returns Wakecall's priority, by which urgent jobs are counted. Their order is the exact priority.
func levelOf(priority uint32) store.Priority {
	switch {
	case priority < urgent:
		return store.High
	case priority == urgent:
		return store.Normal
	}
	return store.Low
}

func (k *conn) put(args []string, body []byte) error {
	var n [4]uint64 // priority, delay, ttr, bytes: checked by the reader
	for i, arg := range args {
		n[i], _ = number(arg, 32)
	}
	if !k.produces {
		k.produces = true
		k.counts.producers.Add(1)
	}
	priority, topic := uint32(n[0]), topicOf(k.used)
	if gateway.IsOffline(topic, k.topics()) {
		return k.reply("DRAINING")
	}
	id, err := k.ids.take(k.ctx)
	if err != nil {
		return err
	}
	result := k.queue.Push(k.ctx, store.Push{
		Topic: topic, ID: format(id), Fresh: true, Body: body, ContentType: store.TypeOf(body), Delay: delayOf(n[1]),
		TTR: ttrOf(n[2]), Priority: levelOf(priority), Order: &priority,
	})
	if result.Err != nil {
		return result.Err
	}
	k.finder.Met(format(id), topic)
	k.counts.jobs.Add(1)
	k.tubes.put(k.used)
	return k.reply("INSERTED", format(id))
}

func format(id uint64) string { return strconv.FormatUint(id, 10) }

// priorityOf returns a job's priority in the protocol. Jobs of other interfaces have none: they come last.
func priorityOf(job *store.Job) uint32 {
	if job.Order == nil {
		return math.MaxUint32
	}
	return *job.Order
}

// endHeld ends or extends the lease of a job that the connection holds. It replies with word, or NOT_FOUND if the
// connection does not hold the job.
func (k *conn) endHeld(id uint64, e store.End, word string) error {
	ok, err := k.settle(id, e)
	if err != nil {
		return err
	}
	if !ok {
		return k.reply("NOT_FOUND")
	}
	return k.reply(word)
}

// settle ends a job's lease, and reports whether the connection held it.
func (k *conn) settle(id uint64, e store.End) (ok bool, err error) {
	h := k.held[id]
	if h == nil {
		return false, nil
	}
	if e.Lease = h.lease; e.Verb == store.Extend {
		e.Delay = h.ttr
	}
	_, ok, err = gateway.End(k.ctx, k.queue, e)
	if err != nil {
		return false, err
	}
	if !ok {
		delete(k.held, id)
		return false, nil
	}
	if h.ends = time.Now().Add(h.ttr); e.Verb != store.Extend {
		delete(k.held, id)
	}
	return true, nil
}

// remove deletes a job that the connection holds, or that is not reserved.
func (k *conn) remove(id uint64) error {
	if h := k.held[id]; h != nil {
		ok, err := k.settle(id, store.End{Verb: store.Done})
		if err != nil {
			return err
		}
		if ok {
			k.deleted(h.lease.Topic)
			return k.reply("DELETED")
		}
	}
	topic, err := k.end(id, store.Done, store.Ready, store.Delayed, store.Dead)
	if err != nil {
		return err
	}
	if topic == "" {
		return k.reply("NOT_FOUND")
	}
	k.deleted(topic)
	return k.reply("DELETED")
}

func (k *conn) deleted(topic string) {
	if name, ok := tubeOf(topic); ok {
		k.tubes.edit(name, func(t *tube) { t.cmdDelete++ })
	}
}

// end ends a job in any tube if it is in one of the given states. It returns the job's topic, or "" if there is no such
// job.
func (k *conn) end(id uint64, verb store.Verb, in ...store.State) (topic string, err error) {
	_, err = k.finder.Try(k.ctx, format(id), func(at string) (bool, error) {
		e := store.End{Ref: store.Ref{Topic: at, ID: format(id)}, In: in, Verb: verb}
		_, found, err := gateway.End(k.ctx, k.queue, e)
		if found {
			topic = at
		}
		return found, err
	})
	return topic, err
}

func (k *conn) touch(id uint64) error {
	return k.endHeld(id, store.End{Verb: store.Extend}, "TOUCHED")
}

func (k *conn) release(args []string, _ []byte) error {
	id, known := number(args[0], 64)
	priority, okPriority := number(args[1], 32)
	delay, okDelay := number(args[2], 32)
	if !known || !okPriority || !okDelay {
		return errBadFormat
	}
	return k.endHeld(id, store.End{
		Verb: store.Fail, Retry: []time.Duration{delayOf(delay)},
		Attempt: gateway.Delayed(releasedError, delayOf(delay)),
		Order:   new(uint32(priority)), Priority: levelOf(uint32(priority)),
	}, "RELEASED")
}

// Errors of attempts that did not time out. The first is followed by a delay.
const (
	releasedError = "released"
	buriedError   = "buried"
)

func (k *conn) bury(args []string, _ []byte) error {
	id, known := number(args[0], 64)
	priority, ok := number(args[1], 32)
	if !ok || !known {
		return errBadFormat
	}
	return k.endHeld(id, store.End{
		Verb: store.Bury, Attempt: &store.Attempt{Error: buriedError},
		Order: new(uint32(priority)), Priority: levelOf(uint32(priority)),
	}, "BURIED")
}

// kick makes up to n buried jobs of the used tube ready. If there are none, it does so with delayed ones.
func (k *conn) kick(args []string, _ []byte) error {
	n, ok := number(args[0], 32)
	if !ok {
		return errBadFormat
	}
	for _, state := range []store.State{store.Dead, store.Delayed} {
		kicked, err := k.kickSome(state, int(n))
		if err != nil {
			return err
		}
		if kicked > 0 {
			return k.reply("KICKED", strconv.Itoa(kicked))
		}
	}
	return k.reply("KICKED", "0")
}

func (k *conn) kickSome(state store.State, n int) (kicked int, err error) {
	for kicked < n {
		before := kicked
		jobs, err := k.first(state)
		if err != nil {
			return kicked, err
		}
		for i := range jobs[:min(len(jobs), n-kicked)] {
			done, err := k.kickOne(jobs[i].Topic, jobs[i].ID, state)
			if err != nil {
				return kicked, err
			}
			if done {
				kicked++
			}
		}
		if kicked == before {
			break
		}
	}
	return kicked, nil
}

// listStep is how many jobs of each state of a tube are read at once.
const listStep = 100

// first returns the first jobs of the used tube in a state, without long bodies: ready ones by priority and id, delayed
// ones by the time they become ready, buried ones by the time they were buried.
func (k *conn) first(state store.State) (jobs []store.Job, err error) {
	topic := topicOf(k.used)
	if state == store.Ready {
		if jobs, err = k.queue.First(k.ctx, topic); err != nil || len(jobs) > 0 {
			slices.SortStableFunc(jobs, inOrder)
			return jobs, err
		}
	}
	jobs, _, err = k.queue.List(k.ctx, topic, state, "", listStep)
	slices.SortStableFunc(jobs, func(a, b store.Job) int {
		return cmp.Or(a.NextAt.Compare(b.NextAt), a.DeadAt.Compare(b.DeadAt))
	})
	return jobs, err
}

// inOrder compares jobs by their priorities and ids.
func inOrder(a, b store.Job) int {
	x, _ := number(a.ID, 64)
	y, _ := number(b.ID, 64)
	return cmp.Or(cmp.Compare(priorityOf(&a), priorityOf(&b)), cmp.Compare(x, y))
}

// kickOne makes a buried or delayed job ready.
func (k *conn) kickOne(topic, id string, state store.State) (bool, error) {
	if state != store.Delayed {
		e := store.End{Ref: store.Ref{Topic: topic, ID: id}, In: []store.State{state}, Verb: store.Release}
		_, found, err := gateway.End(k.ctx, k.queue, e)
		return found, err
	}
	_, err := k.queue.RunNow(k.ctx, topic, id, nil)
	if gateway.IsMissing(err) || errors.Is(err, store.ErrRunning) {
		return false, nil
	}
	return err == nil, err
}

func (k *conn) kickJob(id uint64) error {
	kicked, err := k.finder.Try(k.ctx, format(id), func(topic string) (bool, error) {
		job, err := k.queue.Get(k.ctx, topic, format(id))
		if gateway.IsMissing(err) {
			return false, nil
		}
		if err != nil || job.State != store.Dead && job.State != store.Delayed {
			return false, err
		}
		return k.kickOne(topic, format(id), job.State)
	})
	if err != nil {
		return err
	}
	if !kicked {
		return k.reply("NOT_FOUND")
	}
	return k.reply("KICKED")
}

// find returns the job with an id in any tube, or nil.
func (k *conn) find(id uint64) (*store.Job, error) { return k.finder.Get(k.ctx, format(id)) }

func (k *conn) peek(id uint64) error {
	job, err := k.find(id)
	if err != nil {
		return err
	}
	return k.found(job)
}

func (k *conn) found(job *store.Job) error {
	if job == nil {
		return k.reply("NOT_FOUND")
	}
	return k.replyJob("FOUND", job.ID, job.Body)
}

// peeking returns a command that shows the used tube's first job in a state.
func peeking(state store.State) func(*conn, []string, []byte) error {
	return func(k *conn, _ []string, _ []byte) error {
		jobs, err := k.first(state)
		if err != nil {
			return err
		}
		for i := range jobs {
			if foreign(jobs[i].ID) {
				continue
			}
			job, err := k.queue.Get(k.ctx, jobs[i].Topic, jobs[i].ID) // a list omits long bodies
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			return k.found(job)
		}
		return k.found(nil)
	}
}
