package chaos

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// kind is a kind of fault.
type kind struct {
	name     string
	from, to time.Duration // how long it lasts
	// at chooses where, and returns how the fault begins there. No two faults have the same target at the same time.
	at func(s *site, r *rand.Rand) (target string, begin beginFunc)
}

// beginFunc injects a fault, and returns how it ends; nil: it ends by itself.
type beginFunc func() (endFunc, error)

type endFunc func() error

// fault is one fault: a kind at a target.
type fault struct {
	name, target string
	hold         time.Duration
	begin        beginFunc

	began, over time.Time
	end         endFunc
}

func (k kind) fault(s *site, r *rand.Rand) *fault {
	f := &fault{name: k.name, hold: k.from}
	if k.to > k.from {
		f.hold = between(r, k.from, k.to)
	}
	f.target, f.begin = k.at(s, r)
	return f
}

// between returns a random duration.
func between(r *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(r.Int64N(int64(to-from)))
}

// plan chooses kinds such that each has its turn after a while, in an order that follows from the seed.
type plan struct {
	r     *rand.Rand
	kinds []kind
	deck  []kind
}

func (p *plan) draw() kind {
	if len(p.deck) == 0 {
		p.deck = slices.Clone(p.kinds)
		p.r.Shuffle(len(p.deck), func(i, j int) { p.deck[i], p.deck[j] = p.deck[j], p.deck[i] })
	}
	k := p.deck[0]
	p.deck = p.deck[1:]
	return k
}

// next returns one fault half of the time, otherwise two or three together, or the same one in two places.
func (p *plan) next(s *site) (faults []*fault) {
	add := func(f *fault) {
		if !slices.ContainsFunc(faults, func(other *fault) bool { return other.target == f.target }) {
			faults = append(faults, f)
		}
	}
	if p.r.IntN(6) == 0 {
		k := p.draw()
		for range 4 { // until two different places were chosen
			if len(faults) < 2 {
				add(k.fault(s, p.r))
			}
		}
		return faults
	}
	for range []int{1, 1, 1, 2, 3}[p.r.IntN(5)] {
		add(p.draw().fault(s, p.r))
	}
	return faults
}

// strike injects the faults one after the other, ends each when its time is over, and waits until calls flow again.
func (s *site) strike(ctx context.Context, faults []*fault) (err error) {
	for _, f := range faults {
		s.say("%s: %s, for %s", f.target, f.name, f.hold.Round(time.Millisecond))
		f.began = time.Now()
		if f.end, err = f.begin(); err != nil {
			return fmt.Errorf("%s: %s: %w", f.target, f.name, err)
		}
		f.over = time.Now().Add(f.hold)
	}
	slices.SortStableFunc(faults, func(a, b *fault) int { return a.over.Compare(b.over) })
	var events []event
	for _, f := range faults {
		time.Sleep(time.Until(f.over))
		if f.end != nil {
			if err := f.end(); err != nil {
				return fmt.Errorf("end %s: %s: %w", f.target, f.name, err)
			}
		}
		events = append(events, event{Kind: evFault, Fault: f.name, ID: f.target, At: ms(f.began), End: now()})
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	err = s.waitCalm(ctx)
	s.say("calls flow again after %s", time.Since(began).Round(time.Millisecond))
	for _, e := range events {
		e.Calm = now()
		s.rec.add(e)
	}
	if err != nil {
		return fmt.Errorf("calls do not flow again: %w", err)
	}
	return nil
}

// say logs what happens, with the time since the start.
func (s *site) say(format string, args ...any) {
	s.t.Logf("%7.1fs  "+format, append([]any{time.Since(epoch).Seconds()}, args...)...)
}

// faultCount counts the faults of one kind.
type faultCount struct {
	name           string
	n              int
	longest, worst float64 // in ms: the longest fault, and the longest time until calls flowed again
}

func countFaults(events []event) (counts []*faultCount) {
	for _, e := range events {
		if e.Kind != evFault {
			continue
		}
		i := slices.IndexFunc(counts, func(c *faultCount) bool { return c.name == e.Fault })
		if i < 0 {
			i, counts = len(counts), append(counts, &faultCount{name: e.Fault})
		}
		c := counts[i]
		c.n, c.longest, c.worst = c.n+1, max(c.longest, e.End-e.At), max(c.worst, e.Calm-e.End)
	}
	slices.SortFunc(counts, func(a, b *faultCount) int { return cmp.Compare(a.name, b.name) })
	return counts
}
