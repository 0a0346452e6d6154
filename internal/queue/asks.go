package queue

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// headStart is how long a bucket is asked before the next one is asked, too.
const headStart = 20 * time.Millisecond

// Answer is the answer of one bucket.
type Answer struct {
	BucketTopics
	store.Taken
	Err error
}

// Asks takes jobs from several buckets for one caller. It asks one after the other, but waits only headStart for one
// that does not answer. One goroutine receives from Answers and Late, and calls the methods: Received and Proceed after
// an answer, Proceed when Late, Close at the end.
type Asks struct {
	Request store.TakeRequest  // Topics are those of each bucket
	begun   func(BucketTopics) // called when a bucket is asked, and then its topics are awaited; nil: they are not
	todo    []BucketTopics
	open    []BucketTopics // asked without an answer yet
	late    bool           // the bucket asked last had its head start, or another one has answered since
	head    *time.Timer
	answers chan Answer
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
}

// NewAsks prepares to take jobs from buckets. begun is called before each is asked, whose topics are then awaited as by
// Bucket.Take; nil: they are not awaited.
func NewAsks(ctx context.Context, r store.TakeRequest, begun func(BucketTopics)) *Asks {
	a := &Asks{Request: r, begun: begun, answers: make(chan Answer), head: time.NewTimer(headStart)}
	a.head.Stop()
	a.ctx, a.cancel = context.WithCancel(ctx)
	return a
}

// Answers receives the answer of each bucket.
func (a *Asks) Answers() <-chan Answer { return a.answers }

// Late receives when the bucket asked last has had its head start.
func (a *Asks) Late() <-chan time.Time { return a.head.C }

// Add makes it ask more buckets, except those that it is asking.
func (a *Asks) Add(list []BucketTopics) {
	for _, at := range list {
		if !slices.ContainsFunc(a.open, at.same) && !slices.ContainsFunc(a.todo, at.same) {
			a.todo = append(a.todo, at)
		}
	}
	if len(a.open) == 0 || a.late {
		a.Proceed()
	}
}

// Received notes an answer.
func (a *Asks) Received(answer Answer) {
	a.open = slices.DeleteFunc(a.open, answer.same)
	a.late = true
}

// Proceed asks the next bucket, if any is left.
func (a *Asks) Proceed() {
	if a.late = len(a.todo) == 0; a.late {
		a.head.Stop()
		return
	}
	at, r := a.todo[0], a.Request
	a.todo, a.open = a.todo[1:], append(a.open, a.todo[0])
	a.head.Reset(headStart)
	r.Topics = at.Topics
	var await []string
	if a.begun != nil {
		a.begun(at)
		await = at.Topics
	}
	go func() { // Close waits for it
		taken, err := at.Take(a.ctx, []store.TakeRequest{r}, await)
		a.answers <- Answer{at, taken, err}
	}()
}

// Done reports whether all buckets have answered.
func (a *Asks) Done() bool { return len(a.open)+len(a.todo) == 0 }

// Close ends all calls and releases jobs that they still get. It returns the buckets whose answer nobody received.
func (a *Asks) Close() []BucketTopics {
	a.head.Stop()
	a.cancel()
	for range a.open {
		answer := <-a.answers
		for _, jobs := range answer.Jobs {
			answer.Release(jobs)
		}
	}
	return a.open
}

// Take takes jobs that are ready now. It does not wait for more; package pull does. A bucket that is slow to answer is
// waited for while no other has jobs. Errors: *UnavailableError when no shard answers; that of a shard where the script
// fails, if no other has jobs.
func (q *Queue) Take(ctx context.Context, r store.TakeRequest) ([]store.Job, error) {
	list := q.Shards.Divide(r.Topics, r.Order)
	if len(list) == 0 {
		return nil, &store.UnavailableError{Reason: "down", RetryAfter: time.Second, Err: q.noShard()}
	}
	asks := NewAsks(ctx, r, nil)
	defer asks.Close()
	asks.Add(list)
	return takeFrom(asks)
}

// takeFrom takes up to Request.Max jobs.
func takeFrom(asks *Asks) (jobs []store.Job, err error) {
	var missed error
	answered := false
	for !asks.Done() && (len(jobs) == 0 || !asks.late) {
		select {
		case <-asks.Late():
		case a := <-asks.Answers():
			asks.Received(a)
			_, away := errors.AsType[*store.UnavailableError](a.Err)
			switch {
			case away:
				missed = a.Err
			case a.Err != nil && len(jobs) > 0:
				return jobs, nil
			case a.Err != nil:
				return nil, a.Err
			default:
				answered = true
				n := min(len(a.Jobs[0]), asks.Request.Max) // an earlier call asked for more
				jobs = append(jobs, a.Jobs[0][:n]...)
				a.Release(a.Jobs[0][n:])
				if asks.Request.Max -= n; asks.Request.Max <= 0 {
					return jobs, nil
				}
			}
		}
		asks.Proceed()
	}
	if !answered {
		return nil, missed
	}
	return jobs, nil
}
