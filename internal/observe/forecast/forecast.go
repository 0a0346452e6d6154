package forecast

import (
	"math"
	"strconv"
	"time"

	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/registry"
)

// Situation is what is known about a topic.
type Situation struct {
	State    registry.TopicState
	PausedBy string // empty: unknown
	Away     bool   // a shard did not answer
	Breaker  bool   // the topic's breaker is open
	Probe    time.Duration
	Alone    bool // a pull topic without a worker
	Due      observe.Forecast
	Capacity Capacity
}

// Reason says why it is unknown when a backlog is cleared.
type Reason string

// Reasons. A backlog that grows is never cleared unless something changes.
const (
	Grows        Reason = "grows"
	NotInADay    Reason = "not_in_a_day"
	Paused       Reason = "paused"
	Offline      Reason = "offline"
	BreakerOpen  Reason = "breaker"
	NoWorker     Reason = "no_worker"
	NoDeliveries Reason = "no_deliveries"
	Unmeasured   Reason = "unmeasured"
	ShardAway    Reason = "shard_away"
	Arriving     Reason = "arriving" // it depends on whether jobs go on arriving as they do
)

// Answer says when the jobs that wait are cleared, and how late others will be.
type Answer struct {
	Waiting int64         `json:"waiting,omitempty"` // jobs that are due
	Clear   time.Duration `json:"clear,omitempty"`   // until all that are due are called, at least; 0: none, or Reason
	Most    time.Duration `json:"most,omitempty"`    // at most
	Reason  Reason        `json:"reason,omitempty"`  // why it is unknown; empty: it is known
	By      string        `json:"by,omitempty"`      // who paused the topic
	Probe   time.Duration `json:"probe,omitempty"`   // until the breaker's next probe
	Growth  float64       `json:"growth,omitempty"`  // by how many jobs a second it grows
	Rate    float64       `json:"rate,omitempty"`    // the assumed deliveries a second

	Oldest     time.Duration `json:"-"` // how long the oldest job has waited
	Prediction `json:"-"`
}

// Behind reports whether jobs wait longer than for an instant.
func (a Answer) Behind() bool { return a.Waiting > 0 && a.Oldest >= behindFrom }

// IsLate reports whether jobs will be so late that a page warns of it.
func (a Answer) IsLate() bool { return a.Known() && a.Late >= lateFrom }

// Known reports whether it is known when the backlog is cleared.
func (a Answer) Known() bool { return a.Reason == "" }

// IsZero reports whether there is nothing to say: no job waits.
func (a Answer) IsZero() bool { return a.Reason == "" && a.Clear == 0 }

// behindFrom is how long a job must have waited to be part of a backlog. Most jobs of a busy topic wait for an instant.
const behindFrom = 5 * time.Second

// tooWide is the factor between the bounds of a forecast from which its end is unknown: whatever is between them, one
// is wrong by half of it.
const tooWide = 2.25

// Of returns the forecast of a topic.
func Of(s *Situation) Answer {
	a := Answer{Waiting: s.Due.Ready, Oldest: s.Due.OldestReady, Rate: s.Capacity.rate()}
	if a.Reason = s.stopped(); a.Reason != "" {
		a.By, a.Probe = s.PausedBy, s.Probe
		return a
	}
	if a.Rate == 0 {
		if a.Behind() {
			a.Reason = s.unmeasured()
		}
		return a
	}
	arrivals := 0.0
	if a.Behind() {
		arrivals = s.Due.Arrivals
	}
	a.Prediction = Predict(&s.Due, s.Due.Ready, a.Rate, arrivals)
	if a.Late > 0 { // the oldest job has waited already, and is called next
		a.Late, a.Worst = max(a.Late, a.Oldest), max(a.Worst, a.Oldest)
	}
	least, most := a.least.cleared, a.most.cleared
	switch {
	case arrivals >= a.Rate && float64(s.Due.Minutes[0]) >= steadyShare*60*arrivals: // perhaps all pushed at once
		a.Reason = Arriving
	case arrivals >= a.Rate:
		a.Reason, a.Growth = Grows, arrivals-a.Rate
	case s.Due.Ready > 0 && least == 0:
		a.Reason = NotInADay
	case s.Due.Ready > 0 && (most == 0 || most.Seconds() > tooWide*least.Seconds()):
		a.Reason = Arriving
	default:
		a.Clear, a.Most = least, most
	}
	return a
}

// stopped returns why nothing of the topic is delivered now.
func (s *Situation) stopped() Reason {
	switch {
	case s.Away:
		return ShardAway
	case s.Due.Ready == 0 && s.Due.Hours == [24]int64{}:
		return ""
	case s.State == registry.TopicPaused:
		return Paused
	case s.State == registry.TopicOffline:
		return Offline
	case s.Due.Ready == 0:
		return ""
	case s.Breaker:
		return BreakerOpen
	case s.Alone:
		return NoWorker
	}
	return ""
}

// unmeasured returns why the rate of deliveries is not known.
func (s *Situation) unmeasured() Reason {
	if s.Capacity.Deliveries == 0 || s.Capacity.Share == 0 {
		return NoDeliveries
	}
	return Unmeasured
}

// Say returns the answer in a language, for the text of a page or a mail.
func (a Answer) Say(say func(key string, args ...any) string, duration func(time.Duration) string) string {
	switch {
	case a.IsZero():
		return say("backlog.none")
	case a.Known():
		from, to := duration(Rounded(a.Clear)), duration(Rounded(max(a.Clear, a.Most)))
		if from == to {
			return say("backlog.cleared", to)
		}
		return say("backlog.cleared_between", from, to)
	case a.Reason == Paused && a.By != "":
		return say("backlog.paused_by", a.By)
	case a.Reason == BreakerOpen && a.Probe > 0:
		return say("backlog.breaker_until", duration(Rounded(a.Probe)))
	}
	return say("backlog."+string(a.Reason), strconv.FormatFloat(a.Growth, 'f', digits(a.Growth), 64))
}

func digits(rate float64) int {
	if rate < 10 {
		return 1
	}
	return 0
}

// Rounded rounds a forecast, which is not exact, up to two digits.
func Rounded(d time.Duration) time.Duration {
	step := time.Second
	switch {
	case d > 3*time.Hour:
		step = 10 * time.Minute
	case d > 10*time.Minute:
		step = time.Minute
	case d > time.Minute:
		step = 10 * time.Second
	}
	return (d + step - 1).Truncate(step)
}

// Prediction is how late the jobs that fall due will be called.
type Prediction struct {
	Late  time.Duration // the greatest lateness, if jobs fall due evenly and the whole rate is used
	Worst time.Duration // the same, if each minute's jobs fall due at its start and steadyShare of the rate is used
	At    time.Duration // from now until the due time of these latest jobs
	Over  time.Duration // from now until nothing is late anymore; 0: not within the day

	least, most backlog
}

// backlog is the number of jobs that wait, of which rate a second are called.
type backlog struct {
	jobs, rate float64
	cleared    time.Duration // from now until those that wait, and all that fall due meanwhile, are called; 0: not yet
}

// pass lets the minute at a time pass, in which jobs fall due evenly.
func (b *backlog) pass(at time.Duration, due float64) {
	if b.cleared == 0 && b.jobs > 0 && b.jobs+due <= 60*b.rate {
		b.cleared = at + seconds(b.jobs/(b.rate-due/60))
	}
	b.jobs = max(0, b.jobs+due-60*b.rate)
}

// steadyShare is the share of a limit that is always used: a topic at its limit waits slightly longer between two calls
// than it has to.
const steadyShare = 0.9

// lateFrom is the lateness from which a warning is shown.
const lateFrom = time.Minute

// Least and Minutes return bounds, in minutes, for how late the last job will be.
func (p Prediction) Least() int64 { return int64(p.Late.Minutes()) }

func (p Prediction) Minutes() int64 { return int64(math.Ceil(p.Worst.Minutes())) }

// Predict computes the backlog minute by minute for an hour, then for the rest of the day with each hour's jobs spread
// evenly over it. waiting is the number of jobs that are already due. arrivals is the rate at which jobs arrive that
// were pushed shortly before: in each minute, f has all of them already or none.
func Predict(f *observe.Forecast, waiting int64, rate, arrivals float64) (p Prediction) {
	if rate <= 0 {
		return p
	}
	p.least = backlog{jobs: float64(waiting), rate: rate}
	p.most = backlog{jobs: float64(waiting), rate: steadyShare * rate}
	p.see(0, p.least.jobs, p.most.jobs)
	for m := range 60 * len(f.Hours) {
		due := float64(f.Hours[m/60]) / 60
		if m < len(f.Minutes) {
			due = float64(f.Minutes[m])
		}
		at, more := time.Duration(m)*time.Minute, 60*arrivals
		front := p.most.jobs + due + more
		p.least.pass(at, max(due, more))
		p.most.pass(at, due+more)
		p.see(at+time.Minute, p.least.jobs, front)
	}
	return p
}

// see notes how late jobs are at a time, when so many wait at least and at most.
func (p *Prediction) see(at time.Duration, least, most float64) {
	late := seconds(least / p.least.rate)
	switch {
	case late > p.Late:
		p.Late, p.Worst, p.At, p.Over = late, seconds(most/p.most.rate), at, 0
	case late == 0 && p.Late > 0 && p.Over == 0:
		p.Over = at
	}
}

func seconds(n float64) time.Duration {
	return time.Duration(min(n, (365*24*time.Hour).Seconds()) * float64(time.Second))
}
