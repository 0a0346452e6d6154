package dispatcher

import (
	"fmt"
	"time"

	"github.com/wakecall/wakecall/internal/pause"
	"github.com/wakecall/wakecall/internal/store"
)

// reserve fills places and reports whether there may be more jobs. A request that Redis has not answered within the
// start window gives its places back: the jobs of a later answer may not be called.
func (s *reserver) reserve() (more bool) {
	if !s.settler.accepting(s.ctx, s.d.opts.Concurrency) {
		return false
	}
	n, spare := s.d.places.take(s.ctx, store.ReserveLimit)
	if n == 0 {
		return false
	}
	r := s.request(n, spare)
	ends := s.d.places.callEnds() // obtained before the reserve, whose reply does not show which calls end meanwhile
	asked := s.start.ask()
	r.Slack = asked.window - store.StartWindow
	overdue := time.AfterFunc(asked.window, func() { s.d.places.give(n) })
	got, err := s.bucket.Reserve(s.d.settles, r)
	have := n
	if !overdue.Stop() {
		have = 0
	}
	if err != nil {
		s.d.places.give(have) // an unanswered reserve holds no places
		return s.recover(r, err)
	}
	s.begin(got, asked, have)
	s.follow(time.Since(asked.sent))
	if len(got.Jobs) == n || got.More || spare && len(got.Jobs) > 0 {
		return true
	}
	return limited(r, got.Jobs) && s.wait(ends) != stopped
}

func (s *reserver) request(n int, spare bool) store.Reserve {
	r := store.Reserve{
		Worker: s.d.worker, Token: fmt.Sprintf("%s%d", s.d.worker, s.d.tokens.Add(1)), Max: n,
		Pattern: s.d.opts.Pattern, LeaseCap: leaseCap,
	}
	r.TopicMax, r.Busy = s.d.places.shares(n, spare)
	r.Busy = s.avoid(r.Busy)
	return r
}

// begin starts the calls of reserved jobs in the n places that were taken for them, and gives back those that it does
// not need. It releases jobs that find no place. After a stop it releases all, and also when the answer came so late
// that each call would have to wait for its lease to be extended.
func (s *reserver) begin(got store.Reserved, asked request, n int) {
	s.d.metrics.batch.Observe(float64(len(got.Jobs)))
	started := make([]*place, 0, len(got.Jobs))
	late := time.Since(asked.sent) > asked.window
	for i, j := range got.Jobs {
		r := &reservation{
			Job: j, sent: asked.sent, now: got.Now, asked: asked, ends: asked.sent.Add(j.LeaseUntil.Sub(got.Now)),
		}
		switch {
		case s.ctx.Err() != nil:
			s.settler.add(end(r, store.Release, "shutdown"))
		case late:
			s.settler.add(end(r, store.Release, "late answer"))
		case i >= n:
			s.settler.add(end(r, store.Release, "no place"))
		default:
			s.calls.Add(1)
			r.place = s.d.places.use(j)
			started = append(started, r.place)
			s.d.workers.do(s, r)
		}
	}
	s.d.places.give(n - len(started))
	if len(started) > 0 { // one timer for all: one per job took 3 % of a callback
		time.AfterFunc(hangAfter, func() { s.d.places.stepAside(started...) })
	}
}

// recover retries a reserve whose reply was lost, with the same token, until a reply arrives. Otherwise its jobs would
// count an attempt when their leases expire. It holds no places meanwhile; jobs for which no place is then free are
// released.
func (s *reserver) recover(r store.Reserve, err error) (more bool) {
	s.d.opts.Logger.Log(s.ctx, store.LevelOf(err), "cannot reserve jobs; retrying",
		"shard", s.bucket.Name(), "bucket", s.bucket.Number(), "error", err)
	s.start.end()
	r.Again = true
	backoff, left := minBackoff, lastTries
	for ; left > 0 && !s.removed() && s.d.calls.Err() == nil; backoff = min(2*backoff, maxBackoff) {
		if s.ctx.Err() == nil {
			pause.For(s.ctx, jittered(backoff))
		} else {
			left--
			pause.For(s.d.calls, minBackoff)
		}
		asked := s.start.ask()
		got, err := s.bucket.Reserve(s.d.settles, r)
		if err != nil {
			continue
		}
		s.begin(got, asked, s.d.places.book(len(got.Jobs)))
		return true
	}
	return false
}

// limited reports whether the limits of this request held back jobs. If so, a reserve may find more when a job ends.
func limited(r store.Reserve, jobs []*store.Job) bool {
	count := map[string]int{}
	for _, j := range jobs {
		count[j.Topic]++
	}
	for topic, most := range r.Busy {
		if count[topic] >= most {
			return true
		}
	}
	for _, n := range count {
		if n >= r.TopicMax {
			return true
		}
	}
	return false
}
