package chaos

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/wakecall/wakecall/test/harness/ledger"
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
	var events []ledger.Event
	for _, f := range faults {
		time.Sleep(time.Until(f.over))
		if f.end != nil {
			if err := f.end(); err != nil {
				return fmt.Errorf("end %s: %s: %w", f.target, f.name, err)
			}
		}
		events = append(events, ledger.Event{
			Kind: ledger.Fault, Fault: f.name, ID: f.target, At: ledger.MS(f.began), End: ledger.Now(),
		})
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	err = s.waitCalm(ctx)
	s.say("calls flow again after %s", time.Since(began).Round(time.Millisecond))
	for _, e := range events {
		e.Calm = ledger.Now()
		s.rec.Add(e)
	}
	if err != nil {
		return fmt.Errorf("calls do not flow again: %w", err)
	}
	return nil
}

var epoch = time.Now()

// say logs what happens, with the time since the start.
func (s *site) say(format string, args ...any) {
	s.t.Logf("%7.1fs  "+format, append([]any{time.Since(epoch).Seconds()}, args...)...)
}

// faultTable returns how often each kind of fault was injected, its longest duration, and the longest time until calls
// flowed again.
func faultTable(events []ledger.Event) string {
	byKind := map[string][]ledger.Event{}
	for _, e := range events {
		if e.Kind == ledger.Fault {
			byKind[e.Fault] = append(byKind[e.Fault], e)
		}
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "fault\ttimes\tlongest\tslowest recovery")
	for _, name := range slices.Sorted(maps.Keys(byKind)) {
		longest, worst := 0.0, 0.0
		for _, e := range byKind[name] {
			longest, worst = max(longest, e.End-e.At), max(worst, e.Calm-e.End)
		}
		fmt.Fprintf(w, "%s\t%d\t%.2f s\t%.2f s\n", name, len(byKind[name]), longest/1000, worst/1000)
	}
	_ = w.Flush() // to a Builder
	return b.String()
}
