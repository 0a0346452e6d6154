package dispatcher

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/wakecall/wakecall/internal/batch"
	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/pause"
	"github.com/wakecall/wakecall/internal/store"
)

// A settler sends outcomes to Redis in batches. A batch is retried until Redis answers; the script ignores jobs that
// are already settled. An outcome holds no place.
type settler struct {
	reserver *reserver
	batches  *batch.Batcher[*outcome, struct{}]
	sending  sync.WaitGroup

	mu        sync.Mutex
	unsettled int           // outcomes that are not settled yet
	failing   int           // batches that Redis has not accepted at the first try
	settled   chan struct{} // closed when a batch is settled; nil: nobody waits for that
}

const settleLimit = store.ReserveLimit

func newSettler(r *reserver) *settler {
	s := &settler{reserver: r}
	s.batches = batch.New(batch.Options{
		Calls: 2, Jobs: settleLimit, SecondAt: 32,
		Waiting: math.MaxInt, // accepting bounds them
		Start:   func(f func()) bool { s.sending.Go(f); return true },
	}, s.settle)
	return s
}

func (s *settler) add(o *outcome) {
	s.mu.Lock()
	s.unsettled++
	s.mu.Unlock()
	s.batches.Add(o, batch.Size{Jobs: 1})
}

// accepting waits until Redis has accepted every outcome that it did not accept at the first try, and until fewer than
// most are unsettled. Nothing is reserved before, so the outcomes that wait for a shard that is down are bounded. It
// returns false when ctx is done.
func (s *settler) accepting(ctx context.Context, most int) bool {
	for ctx.Err() == nil {
		s.mu.Lock()
		if s.failing == 0 && s.unsettled < most {
			s.mu.Unlock()
			return true
		}
		if s.settled == nil {
			s.settled = make(chan struct{})
		}
		settled := s.settled
		s.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-settled:
		}
	}
	return false
}

// fails counts a batch that Redis does not accept, until it is done with.
func (s *settler) fails(more int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing += more
}

// done ends a batch.
func (s *settler) done(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsettled -= n
	if s.settled != nil {
		close(s.settled)
		s.settled = nil
	}
}

// wait returns when all outcomes are settled. No outcomes may be added meanwhile.
func (s *settler) wait() { s.sending.Wait() }

func (s *settler) settle(_ int, requests []*batch.Request[*outcome, struct{}]) {
	batch := make([]*outcome, len(requests))
	for i, r := range requests {
		batch[i] = r.Value
	}
	list := make([]store.End, len(batch))
	var live, dying []*outcome
	for i, o := range batch {
		if list[i] = o.End; o.dies() {
			dying = append(dying, o)
		} else {
			live = append(live, o)
		}
	}
	s.report(live)
	s.record(live)
	ended := s.send(list)
	var gone []journal.RequestLine
	for i, o := range batch {
		switch {
		case ended == nil || ended[i].Err != nil:
			s.reserver.d.metrics.lost.Inc()
			continue
		case ended[i].Withdrawn():
			j := o.job
			gone = append(gone, journal.RequestLine{Op: journal.OpDelete, Topic: j.Topic, ID: j.ID, Shard: j.Shard,
				Revision: ended[i].Revision, CreatedAt: j.CreatedAt})
			if o.dies() {
				o.Verb = store.Retry // the attempt failed, but nobody is told of a death
			}
		case o.dies():
			o.job.Revision = ended[i].Revision
		}
	}
	s.report(dying)
	s.record(dying)
	if journals := s.reserver.d.opts.Journal; journals != nil && len(gone) > 0 && journals.Requests(gone) != nil {
		s.reserver.d.metrics.journalErrors.Inc()
	}
	s.done(len(batch))
}

// dies reports whether an outcome makes its job dead.
func (o *outcome) dies() bool { return o.Verb == store.Bury || o.Verb == store.Expire }

// send retries a batch until Redis answers. It gives up and returns nil when the dispatcher ends, or soon after the
// shard was removed. A lease that a retry reports as lost may have been settled by an earlier call.
func (s *settler) send(list []store.End) []store.Ended {
	d := s.reserver.d
	failed := false
	for backoff, left := minBackoff, lastTries; ; backoff = min(2*backoff, maxBackoff) {
		ended, err := s.reserver.bucket.End(d.settles, list)
		if err == nil {
			return ended
		}
		if !failed {
			failed = true
			s.fails(1)
			defer s.fails(-1)
			d.opts.Logger.Warn("cannot settle outcomes; retrying",
				"shard", s.reserver.bucket.Name(), "jobs", len(list), "error", err)
		}
		d.metrics.settleRetries.Inc()
		if s.reserver.removed() {
			backoff = minBackoff
			left--
		}
		if pause.For(d.settles, jittered(backoff)); d.settles.Err() != nil || left == 0 {
			d.opts.Logger.Error("outcomes not settled; their jobs are called again when their leases expire",
				"shard", s.reserver.bucket.Name(), "jobs", len(list), "error", err)
			return nil
		}
	}
}

// record writes attempts to the journal. It does so before they are settled and with the revision of the reservation,
// so that a delivery is recorded whatever happens. Deaths are recorded afterwards, because settling assigns a death the
// revision that orders it. A journal that cannot be written does not stop jobs.
func (s *settler) record(batch []*outcome) {
	d := s.reserver.d
	var lines []journal.AttemptLine
	for _, o := range batch {
		if o.Verb == store.Release {
			continue
		}
		j := o.job
		line := journal.AttemptLine{
			Topic: j.Topic, ID: j.ID, CreatedAt: j.CreatedAt, N: o.Lease.Attempt, Outcome: journalOutcomes[o.Verb],
			Reason: o.reason, Shard: j.Shard, Revision: j.Revision,
		}
		if o.Verb == store.Done || o.dies() {
			line.Schedule, line.For, line.Answer = j.Schedule, j.For, o.Answer.Encode()
		}
		if a := o.Attempt; a != nil {
			line.StartedAt, line.Took = time.UnixMilli(a.StartedAt).UTC(), o.took
			line.Status, line.Error = a.Status, a.Error
		}
		if lines == nil {
			lines = make([]journal.AttemptLine, 0, len(batch))
		}
		lines = append(lines, line)
	}
	if d.opts.Journal == nil || len(lines) == 0 {
		return
	}
	if err := d.opts.Journal.Attempts(lines); err != nil {
		d.metrics.journalErrors.Inc()
	}
}

var journalOutcomes = map[store.Verb]journal.Outcome{
	store.Done: journal.Done, store.Retry: journal.Retry, store.Snooze: journal.Snooze, store.Bury: journal.Dead,
	store.Expire: journal.Expired,
}
