package bench

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// lateRate is the load of a nearly idle installation, in jobs per second.
const lateRate = 200

var lateGroup = group{
	name: "lateness", about: "lateness at 200 jobs a second",
	figures: []figure{
		{name: "late_p50", title: "lateness at 200 jobs/s, p50", unit: "ms", atMost: 1.5},
		{name: "late_p99", title: "lateness at 200 jobs/s, p99", unit: "ms", atMost: 5},
		{name: "late_max", title: "lateness at 200 jobs/s, max", unit: "ms", atMost: 50},
		{name: "late_early", title: "called early at 200 jobs/s", unit: "jobs", bounded: true},
	},
	measure: func(ctx context.Context, s *suite) ([]Raw, error) { return s.lateness(ctx, lateRate) },
}

var halfGroup = group{
	name: "half", about: "lateness at half of the highest rate of callbacks",
	figures: []figure{
		{name: "half_p50", title: "lateness at half load, p50", unit: "ms"},
		{name: "half_p99", title: "lateness at half load, p99", unit: "ms", atMost: 50},
		{name: "half_max", title: "lateness at half load, max", unit: "ms"},
		{name: "half_early", title: "called early at half load", unit: "jobs", bounded: true},
	},
	measure: func(ctx context.Context, s *suite) ([]Raw, error) {
		rate, err := s.steadyCallbacks(ctx)
		if err != nil {
			return nil, err
		}
		return s.lateness(ctx, int(rate/2))
	},
}

// steadyCallbacks returns the highest rate of callbacks at present. A shared machine may have another one some minutes
// later.
func (s *suite) steadyCallbacks(ctx context.Context) (rate float64, err error) {
	err = s.on(ctx, func(in *installation) error {
		seen, _, err := s.deliver(ctx, in, func() error { return nil })
		if err != nil {
			return err
		}
		rate, _ = steadyRate(seen.Buckets)
		return nil
	})
	return rate, err
}

// lateness pushes jobs at a steady rate, with random delays, and evaluates when their callbacks arrived.
func (s *suite) lateness(ctx context.Context, rate int) (raw []Raw, err error) {
	err = s.on(ctx, func(in *installation) error {
		if err := in.putTopic(ctx, topicName, s.endpoint.url("/late"), "active"); err != nil {
			return err
		}
		if err := s.endpoint.reset(ctx); err != nil {
			return err
		}
		started := time.Now()
		pushed, err := s.pace(ctx, in, rate)
		if err != nil {
			return err
		}
		ended := time.Now()
		if err := s.awaitCallbacks(ctx, int64(pushed), s.scale.lateMax+time.Minute); err != nil {
			return err
		}
		seen, err := s.endpoint.seen(ctx, true)
		if err != nil {
			return err
		}
		// Before that time, the delays have not yet built up the load; after it, the load decreases.
		raw = judge(seen.Samples, started.Add(s.scale.lateMax), ended.Add(s.scale.lateMin), rate)
		return nil
	})
	return raw, err
}

// paceTick is how often pace pushes.
const paceTick = 5 * time.Millisecond

// pace pushes rate jobs per second for s.scale.latePush, each due at the time in its id.
func (s *suite) pace(ctx context.Context, in *installation, rate int) (pushed int, err error) {
	conn, err := net.Dial("tcp", in.addr)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	w := wire{conn: conn, r: bufio.NewReader(conn)}
	b := batch{topic: topicName, token: in.token, delay: between(s.scale.lateMin, s.scale.lateMax), id: dueID}
	start := time.Now()
	err = until(ctx, paceTick, func() (bool, error) {
		since := min(time.Since(start), s.scale.latePush)
		size := min(int(float64(rate)*since.Seconds())-pushed, 1000)
		if size > 0 {
			status, body, err := w.roundTrip(b.request(0, pushed, size))
			if err == nil {
				err = load{check: noErrors}.verify(status, body)
			}
			if err != nil {
				return false, err
			}
			pushed += size
		}
		return since == s.scale.latePush && size <= 0, nil
	})
	return pushed, err
}

// dueID returns an id that tells the endpoint when the job may be called at the earliest: its delay after it was
// pushed, by this machine's clock.
func dueID(_, n int, delay time.Duration) string {
	return fmt.Sprintf("%d-%d", n, time.Now().Add(delay).UnixMilli())
}

// wantedOf returns the time in an id of dueID, in Unix milliseconds.
func wantedOf(id string) int64 {
	_, wanted, _ := strings.Cut(id, "-")
	ms, _ := strconv.ParseInt(wanted, 10, 64)
	return ms
}

// judge computes the four figures from the samples that were due between from and to. Early calls count whenever they
// were due.
func judge(samples []sample, from, to time.Time, rate int) []Raw {
	var late []float64
	early := 0
	for _, s := range samples {
		if s.At < s.Due*1000 || s.At < s.Wanted*1000 {
			early++
		}
		if s.Due >= from.UnixMilli() && s.Due < to.UnixMilli() {
			late = append(late, float64(s.At-s.Due*1000)/1000)
		}
	}
	slices.Sort(late)
	detail := map[string]any{
		"jobs":            len(samples),
		"counted":         len(late),
		"jobs_per_second": rate,
		"quantiles_ms":    quantiles(late),
	}
	return []Raw{
		{
			Value:  quantile(late, 0.5),
			Detail: detail,
		}, {Value: quantile(late, 0.99)}, {Value: quantile(late, 1)}, {Value: float64(early)},
	}
}

func quantiles(sorted []float64) map[string]float64 {
	out := map[string]float64{}
	for _, q := range []float64{0, 0.5, 0.9, 0.95, 0.99, 0.999, 1} {
		out[strconv.FormatFloat(q, 'f', -1, 64)] = quantile(sorted, q)
	}
	return out
}
