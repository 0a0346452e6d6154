package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// fault describes how something is broken, and how it is repaired.
type fault struct {
	Name   string // the kind, for the table
	Target string // its target: no two faults at the same time have the same target
	Inject func(context.Context) error
	Heal   func(context.Context) error // nil: it heals by itself, or is over at once
	Hold   time.Duration               // its duration
}

// kind creates faults of one name, with random details.
type kind struct {
	name string
	new  func(s *site, r *rand.Rand) fault
}

// strike is a set of faults at the same time.
type strike struct {
	pause  time.Duration // pause before it
	faults []fault
}

// plan chooses kinds such that each has its turn after a while, in an order that follows from the seed.
type plan struct {
	r     *rand.Rand
	kinds []kind
	deck  []kind
}

func (p *plan) draw() kind {
	if len(p.deck) == 0 {
		p.deck = append(p.deck, p.kinds...)
		p.r.Shuffle(len(p.deck), func(i, j int) { p.deck[i], p.deck[j] = p.deck[j], p.deck[i] })
	}
	k := p.deck[0]
	p.deck = p.deck[1:]
	return k
}

// next returns one fault half of the time, otherwise two or three together, or the same one in two places.
func (p *plan) next(s *site) strike {
	st := strike{pause: time.Duration(200+p.r.IntN(1500)) * time.Millisecond}
	targets := map[string]bool{}
	add := func(f fault) {
		if !targets[f.Target] {
			targets[f.Target] = true
			st.faults = append(st.faults, f)
		}
	}
	if p.r.IntN(6) == 0 {
		k := p.draw()
		for range 4 { // until two different places were chosen
			if len(st.faults) < 2 {
				add(k.new(s, p.r))
			}
		}
		return st
	}
	for range []int{1, 1, 1, 2, 3}[p.r.IntN(5)] {
		add(p.draw().new(s, p.r))
	}
	return st
}

// between returns a random duration.
func between(r *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(r.Int64N(int64(to-from)))
}

// do injects the faults one after the other, heals each when its time is over, and waits until calls flow again.
func (st strike) do(ctx context.Context, s *site) error {
	time.Sleep(st.pause)
	type under struct {
		fault
		at, over time.Time
	}
	var active []under
	for _, f := range st.faults {
		s.t.Logf("%7.1fs  %s: %s, for %s", time.Since(epoch).Seconds(), f.Target, f.Name, f.Hold.Round(time.Millisecond))
		at := time.Now()
		if err := f.Inject(ctx); err != nil {
			return fmt.Errorf("%s: %s: %w", f.Target, f.Name, err)
		}
		active = append(active, under{f, at, time.Now().Add(f.Hold)})
	}
	var healed []event
	for len(active) > 0 {
		n := 0
		for i := range active {
			if active[i].over.Before(active[n].over) {
				n = i
			}
		}
		u := active[n]
		active = append(active[:n], active[n+1:]...)
		time.Sleep(time.Until(u.over))
		if u.Heal != nil {
			if err := u.Heal(ctx); err != nil {
				return fmt.Errorf("healing %s: %s: %w", u.Target, u.Name, err)
			}
		}
		healed = append(healed, event{Kind: evFault, Fault: u.Name, ID: u.Target, At: ms(u.at), End: now()})
	}
	began := time.Now()
	calm, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	err := s.waitCalm(calm)
	s.t.Logf("%7.1fs  calls flow again after %s", time.Since(epoch).Seconds(), time.Since(began).Round(time.Millisecond))
	for _, e := range healed {
		e.Calm = now()
		s.rec.add(e)
	}
	if err != nil {
		return fmt.Errorf("calls do not flow again: %w", err)
	}
	return nil
}
