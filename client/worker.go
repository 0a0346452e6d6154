package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"sync"
	"time"
)

// Worker reserves jobs of pull topics and calls Handle for each, several at once.
type Worker struct {
	Client *Client
	Topics []string
	// Handle processes a job. If it returns nil, the job is done, with job.Result; an error fails the attempt, unless
	// it is Released or Buried. Its context ends with the lease, or StopTimeout after the worker was stopped.
	Handle      func(ctx context.Context, job *LeasedJob) error
	Concurrency int           // jobs at once; 0: one
	TTR         time.Duration // how long a lease lasts unless it is extended; 0: the job's, or its topic's
	Order       string        // Fair or Listed; empty: Fair
	StopTimeout time.Duration // for running jobs when the worker is stopped; 0: 30 s
	// Failed is called with the errors of requests that the worker repeats, with lost leases and with panics of Handle,
	// by several goroutines at once. It may be nil.
	Failed func(error)
}

// released and buried are errors of a handler that mean another outcome than a failed attempt.
type released struct{ after time.Duration }

func (r released) Error() string { return "released" }

type buried struct{ error }

// Released returns the error for a handler that cannot do the job now: the job is ready again after the given time, and
// the attempt is not counted.
func Released(after time.Duration) error { return released{after} }

// Buried returns the error for a handler that can never do the job: the job is dead at once.
func Buried(reason error) error { return buried{reason} }

const (
	workerWait    = 20 * time.Second // of one Reserve
	maxPause      = 5 * time.Second  // after calls that failed
	endTimeout    = 10 * time.Second // to end a lease that expires soon, or after the worker was stopped
	shortestPause = 20 * time.Millisecond
	// arriving bounds a Reserve that does not wait: its jobs may be on their way for so long.
	arriving = time.Second
)

// Run works until ctx ends; then it reserves no more jobs and waits for the running ones. It returns an error when the
// server refuses its requests: the topic does not exist, or the token lacks the right.
func (w *Worker) Run(ctx context.Context) error {
	stopTimeout := w.StopTimeout
	if stopTimeout <= 0 {
		stopTimeout = 30 * time.Second
	}
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var running sync.WaitGroup
	defer context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(stopTimeout, stop)
		context.AfterFunc(work, func() { timer.Stop() })
	})()
	defer running.Wait()
	slots := make(chan struct{}, max(w.Concurrency, 1))
	for pause := time.Duration(0); ; {
		n := w.free(ctx, slots)
		if n == 0 {
			running.Wait()
			return nil
		}
		began := time.Now()
		jobs, err := w.reserve(ctx, n)
		for range n - len(jobs) {
			<-slots
		}
		do := w.do
		if ctx.Err() != nil {
			do = w.giveBack
		}
		for i := range jobs {
			running.Add(1)
			go func() {
				defer running.Done()
				defer func() { <-slots }()
				do(work, &jobs[i])
			}()
		}
		switch {
		case ctx.Err() != nil:
			continue
		case err == nil && (len(jobs) > 0 || time.Since(began) > arriving):
			pause = 0
			continue
		case err == nil: // a stopping server lets no worker wait
		case !temporary(err):
			return fmt.Errorf("reserve jobs: %w", err)
		default:
			w.failed(fmt.Errorf("reserve jobs: %w", err))
		}
		pause = min(max(2*pause, 100*time.Millisecond), maxPause)
		_ = sleep(ctx, pause/2+rand.N(pause/2))
	}
}

// reserve reserves up to n jobs. When ctx ends, it still receives jobs that may be on their way: otherwise their leases
// would expire.
func (w *Worker) reserve(ctx context.Context, n int) ([]LeasedJob, error) {
	arrived := time.Now().Add(arriving)
	call, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(time.Until(arrived), cancel) })()
	return w.Client.Reserve(call, Reserve{
		Topics: w.Topics, Max: n, Wait: workerWait, TTR: w.TTR, Order: w.Order,
	})
}

// giveBack releases a job that arrived after the worker stopped.
func (w *Worker) giveBack(ctx context.Context, job *LeasedJob) {
	w.end(ctx, job, time.Now(), Released(0))
}

// temporary reports whether a retry may succeed because the server, or a proxy in front of it, is unavailable.
func temporary(err error) bool {
	var e *Error
	return errors.Is(err, ErrUnreachable) ||
		(errors.As(err, &e) && (e.Status >= http.StatusInternalServerError || e.Status == http.StatusTooManyRequests))
}

// free waits for a free slot and takes all free ones, up to the maximum of a Reserve; none when ctx ends.
func (w *Worker) free(ctx context.Context, slots chan struct{}) (n int) {
	if ctx.Err() != nil {
		return 0
	}
	select {
	case <-ctx.Done():
		return 0
	case slots <- struct{}{}:
	}
	for n = 1; n < 100; n++ {
		select {
		case slots <- struct{}{}:
		default:
			return n
		}
	}
	return n
}

// errOver is the cause that cancels the handling of a job whose lease could not be extended: another worker may have
// the job.
var errOver = fmt.Errorf("the lease could not be extended in time: %w", ErrConflict)

// do calls Handle for one job, and ends its lease.
func (w *Worker) do(ctx context.Context, job *LeasedJob) {
	handling, cancel := context.WithCancelCause(ctx)
	extended := make(chan time.Time, 1)
	go func() { extended <- w.extend(handling, cancel, job) }()
	err := w.handle(handling, job)
	lost := context.Cause(handling)
	cancel(nil)
	until := <-extended
	if err != nil && errors.Is(lost, ErrConflict) { // if err is nil, the server decides whether the result counts
		w.failed(fmt.Errorf("%s/%s: %w", job.Topic, job.ID, lost))
		return
	}
	if err != nil && ctx.Err() != nil { // stopped in the middle
		err = Released(0)
	}
	w.end(ctx, job, until, err)
}

func (w *Worker) handle(ctx context.Context, job *LeasedJob) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
			w.failed(fmt.Errorf("%s/%s: %w\n%s", job.Topic, job.ID, err, debug.Stack()))
		}
	}()
	if err := w.Handle(ctx, job); err != nil {
		return err
	}
	if job.Result != nil && !json.Valid(job.Result) {
		return errors.New("the result must be JSON")
	}
	return nil
}

// extend extends the lease whenever a third of it has passed, and tries again soon if that fails. It measures from the
// job's arrival, and from before each call, since the clocks of the server and of this host may differ. When the lease
// has expired, extend cancels Handle.
func (w *Worker) extend(ctx context.Context, cancel context.CancelCauseFunc, job *LeasedJob) (until time.Time) {
	length := job.TTR.Std()
	until = time.Now().Add(length)
	for pause := length / 3; ; {
		if sleep(ctx, min(max(pause, shortestPause), time.Until(until))) != nil {
			return until
		}
		asked := time.Now()
		if !asked.Before(until) {
			cancel(errOver)
			return until
		}
		call, stop := context.WithDeadline(ctx, until)
		_, err := w.Client.Extend(call, job.Lease, w.TTR)
		stop()
		switch {
		case ctx.Err() != nil:
			return until
		case errors.Is(err, ErrConflict):
			cancel(err)
			return until
		case err == nil:
			until, pause = asked.Add(length), length/3
		default:
			pause = length / 20
		}
	}
}

// end sends the outcome of a job, repeatedly while the server does not answer and the lease may last.
func (w *Worker) end(work context.Context, job *LeasedJob, until time.Time, result error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(work), max(time.Until(until), endTimeout))
	defer cancel()
	defer context.AfterFunc(work, func() { time.AfterFunc(endTimeout, cancel) })()
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, maxPause) {
		err := w.endOnce(ctx, job, result)
		if err == nil {
			return
		}
		err = fmt.Errorf("end the lease of %s/%s: %w", job.Topic, job.ID, err)
		if !temporary(err) || sleep(ctx, pause) != nil {
			w.failed(err)
			return
		}
	}
}

func (w *Worker) endOnce(ctx context.Context, job *LeasedJob, result error) error {
	var back released
	var dead buried
	switch {
	case result == nil && job.Result == nil:
		return w.Client.Ack(ctx, job.Lease)
	case result == nil:
		return w.Client.AckResult(ctx, job.Lease, job.Result)
	case errors.As(result, &back):
		return w.Client.Release(ctx, job.Lease, back.after)
	case errors.As(result, &dead):
		return w.Client.Bury(ctx, job.Lease, dead.Error())
	}
	return w.Client.Fail(ctx, job.Lease, result.Error())
}

func (w *Worker) failed(err error) {
	if w.Failed != nil {
		w.Failed(err)
	}
}
