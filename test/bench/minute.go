package bench

import (
	"context"
	"fmt"
	"time"
)

var minuteGroup = group{
	name: "minute", about: "1,000,000 jobs due in one minute over 100,000 topics",
	figures: []figure{
		{
			name: "minute_left", title: "1,000,000 jobs due in one minute over 100,000 topics: not called",
			unit: "jobs", bounded: true,
		},
		{name: "minute_p99", title: "the same: lateness, p99", unit: "ms", atMost: 1000, fullOnly: true},
		{name: "minute_early", title: "the same: called early", unit: "jobs", bounded: true},
		{
			name: "minute_cpu", title: "the same: processor time of all processes, from due to settled",
			unit: "µs a job",
		},
	},
	measure: measureMinute,
}

const (
	minuteRate  = 1_000_000 / 60 // jobs that are due in a second
	minutePush  = 4000           // pushes a second that are assumed
	minuteLimit = 10 * time.Minute
)

// measureMinute pushes jobs to all topics in turn, each due at a random time of the same minute (quick: of so many
// seconds that the rate is the same), and waits until they have been called.
func measureMinute(ctx context.Context, s *suite) (raw []Raw, err error) {
	err = s.on(ctx, func(in *installation) error {
		if _, err := s.applyTopics(ctx, in); err != nil {
			return err
		}
		if err := s.endpoint.reset(ctx); err != nil {
			return err
		}
		jobs := s.scale.mass
		lasts := time.Duration(jobs) * time.Second / minuteRate
		due := time.Now().Add(5*time.Second + time.Duration(jobs)*time.Second/minutePush)
		within := between(0, lasts)
		b := batch{
			topics: s.scale.manyTopics, token: in.token, size: batchSize,
			delay: func() time.Duration { return time.Until(due) + within() },
		}
		b.id = func(conn, n int, delay time.Duration) string {
			return fmt.Sprintf("%d.%s", conn, dueID(conn, n, delay))
		}
		if err := s.fill(ctx, in, b, jobs); err != nil {
			return err
		}
		if time.Until(due) < 0 {
			return fmt.Errorf("%d jobs were not pushed in time", jobs)
		}
		raw, err = s.watchMinute(ctx, in, due, lasts)
		return err
	})
	return raw, err
}

func (s *suite) watchMinute(
	ctx context.Context, in *installation, due time.Time, lasts time.Duration,
) ([]Raw, error) {
	if err := pause(ctx, time.Until(due)); err != nil {
		return nil, err
	}
	before, err := treeCPU(in.cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	if err := s.awaitCallbacks(ctx, int64(s.scale.mass), lasts+minuteLimit); err != nil {
		return nil, err
	}
	after, err := treeCPU(in.cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	seen, err := s.endpoint.seen(ctx, true)
	if err != nil {
		return nil, err
	}
	late := judge(seen.Samples, due, due.Add(2*lasts), minuteRate)
	return []Raw{
		{Value: float64(int64(s.scale.mass) - seen.Count), Detail: late[0].Detail},
		{Value: late[1].Value},
		{Value: late[3].Value},
		{Value: perRequest(after-before, s.scale.mass)},
	}, nil
}
