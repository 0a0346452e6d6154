package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// clientConcurrency is how many requests the bare http.Client makes at once: as many as one dispatcher by default.
const clientConcurrency = 256

var callbackGroup = group{
	name: "callbacks", about: "callbacks end to end, beside a bare http.Client",
	figures: []figure{{
		name: "callbacks", title: "callbacks end to end (reserve, POST, settle), 64-byte body",
		unit:  "/s",
		limit: "bare http.Client, 256 at once", ratio: 0.65,
	}},
	measure: measureCallbacks,
}

func measureCallbacks(ctx context.Context, s *suite) (raw []Raw, err error) {
	err = s.on(ctx, func(in *installation) error {
		bare, err := s.bareClient(ctx)
		if err != nil {
			return err
		}
		seen, cpu, err := s.deliver(ctx, in, func() error { return nil })
		if err != nil {
			return err
		}
		steady, whole := steadyRate(seen.Buckets)
		raw = []Raw{{Value: steady, Limit: bare, Detail: map[string]any{
			"jobs": s.scale.callbacks, "whole_per_second": whole,
			"by_tenth_of_a_second": ordered(seen.Buckets), "cpu_us_per_callback": cpu,
		}}}
		return nil
	})
	return raw, err
}

// deliver fills a paused topic with jobs, resumes it and waits until all were called. It also returns the CPU time of a
// callback in microseconds. filled is called before the topic is resumed.
func (s *suite) deliver(
	ctx context.Context,
	in *installation,
	filled func() error,
) (seen seenAnswer, cpuMicros float64, err error) {
	callback := s.endpoint.url("/count")
	if err := in.putTopic(ctx, topicName, callback, "paused"); err != nil {
		return seen, 0, err
	}
	b := batch{topic: topicName, token: in.token, size: batchSize, delay: func() time.Duration { return 0 }}
	if err := s.fill(ctx, in, b, s.scale.callbacks); err != nil {
		return seen, 0, err
	}
	if err := s.endpoint.reset(ctx); err != nil {
		return seen, 0, err
	}
	if err := filled(); err != nil {
		return seen, 0, err
	}
	before, err := treeCPU(in.cmd.Process.Pid)
	if err != nil {
		return seen, 0, err
	}
	if err := in.putTopic(ctx, topicName, callback, "active"); err != nil {
		return seen, 0, err
	}
	if err := s.awaitCallbacks(ctx, int64(s.scale.callbacks), 3*time.Minute); err != nil {
		return seen, 0, err
	}
	after, err := treeCPU(in.cmd.Process.Pid)
	if err != nil {
		return seen, 0, err
	}
	seen, err = s.endpoint.seen(ctx, true)
	return seen, perRequest(after-before, s.scale.callbacks), err
}

// fill pushes n jobs in batches.
func (s *suite) fill(ctx context.Context, in *installation, b batch, n int) error {
	_, err := load{
		addr:   in.addr,
		conns:  batchConnections,
		total:  n / b.size,
		source: b.source,
		check:  noErrors,
	}.run(
		ctx,
	)
	return err
}

// awaitCallbacks waits until the endpoint has received at least n callbacks.
func (s *suite) awaitCallbacks(ctx context.Context, n int64, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var got int64
	err := until(ctx, 100*time.Millisecond, func() (bool, error) {
		seen, err := s.endpoint.seen(ctx, false)
		got = seen.Count
		return got >= n, err
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("only %d of %d callbacks came within %s", got, n, limit)
	}
	return err
}

// ordered returns the counts for consecutive tenths of a second, including empty ones.
func ordered(buckets map[int64]int64) []int64 {
	if len(buckets) == 0 {
		return nil
	}
	var at []int64
	for t := range buckets {
		at = append(at, t)
	}
	first, last := slices.Min(at), slices.Max(at)
	counts := make([]int64, last-first+1)
	for t, n := range buckets {
		counts[t-first] = n
	}
	return counts
}

// steadyRate returns the rate between the times at which a fifth and nine tenths of the calls had arrived: it excludes
// the ramp-up and the end. whole is the rate over the whole time.
func steadyRate(buckets map[int64]int64) (steady, whole float64) {
	counts := ordered(buckets)
	var total int64
	for _, n := range counts {
		total += n
	}
	if total == 0 {
		return 0, 0
	}
	var sum, inside int64
	var length int
	for _, n := range counts {
		before := sum
		sum += n
		if before*5 >= total && sum*10 <= total*9 {
			inside += n
			length++
		}
	}
	whole = float64(total) / (float64(len(counts)) * bucketLength.Seconds())
	if length == 0 {
		return whole, whole
	}
	return float64(inside) / (float64(length) * bucketLength.Seconds()), whole
}

// bareClient returns the rate at which an http.Client alone posts to the endpoint.
func (s *suite) bareClient(ctx context.Context) (float64, error) {
	transport := &http.Transport{
		MaxIdleConnsPerHost: clientConcurrency,
		MaxConnsPerHost:     clientConcurrency,
		DisableCompression:  true,
	}
	defer transport.CloseIdleConnections()
	httpClient := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	body := []byte(jobBody(0))
	start := time.Now().Add(s.scale.warmUp)
	end := start.Add(s.scale.load)
	var count atomic.Int64
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for range clientConcurrency {
		wg.Go(func() {
			for now := time.Now(); now.Before(end); now = time.Now() {
				if err := postOnce(ctx, httpClient, s.endpoint.url("/count"), body); err != nil {
					cancel(err)
					return
				}
				if now.After(start) {
					count.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return 0, fmt.Errorf("the bare http.Client: %w", err)
	}
	return float64(count.Load()) / s.scale.load.Seconds(), nil
}

func postOnce(ctx context.Context, c *http.Client, url string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Join(err, resp.Body.Close())
}
