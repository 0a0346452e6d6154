//go:build go1.25

package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

// answering is a server without a network, so that the test can use fake time. The build constraint: Go 1.24 has no testing/synctest.
type answering func(*http.Request) (*http.Response, error)

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

func answer(status int, body io.Reader) (*http.Response, error) {
	return &http.Response{StatusCode: status, Body: io.NopCloser(body), Header: http.Header{}}, nil
}

// TestAWorkerSurvivesAnOutage after the server or a proxy was unavailable for a while, also at the end of a job.
func TestAWorkerSurvivesAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		reserves := 0
		var done, acked time.Time
		c, err := New(Options{URL: "http://wakecall.test", HTTPClient: &http.Client{Transport: answering(
			func(r *http.Request) (*http.Response, error) {
				if strings.HasSuffix(r.URL.Path, "/ack") {
					if time.Since(done) < 40*time.Second {
						return nil, errors.New("connection refused")
					}
					acked = time.Now()
					stop()
					return answer(http.StatusNoContent, http.NoBody)
				}
				switch reserves++; reserves {
				case 1:
					return answer(http.StatusBadGateway, strings.NewReader("<html>"))
				case 2:
					return nil, errors.New("connection refused")
				case 3: // the server is killed while it answers
					return answer(http.StatusOK, iotest.ErrReader(io.ErrUnexpectedEOF))
				case 4:
					return answer(http.StatusServiceUnavailable, strings.NewReader(`{}`))
				case 5:
					return answer(http.StatusOK, strings.NewReader(oneJob))
				}
				<-r.Context().Done()
				return nil, r.Context().Err()
			})}})
		if err != nil {
			t.Fatal(err)
		}
		failed := 0
		w := Worker{Client: c, Topics: []string{"t"}, Failed: func(error) { failed++ }}
		w.Handle = func(context.Context, *LeasedJob) error {
			done = time.Now()
			return nil
		}
		if err := w.Run(ctx); err != nil {
			t.Error(err)
		}
		if failed != 4 || acked.IsZero() {
			t.Errorf("%d failures were reported, want 4; acked %v", failed, acked)
		}
	})
}

// TestAWorkerExtendsALeaseByItsLength: neither the clock of the worker's host nor occasional failed calls make a
// difference.
func TestAWorkerExtendsALeaseByItsLength(t *testing.T) {
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			const ttr = 10 * time.Second
			last, calls := time.Now(), 0
			lost := handleFor(t, time.Minute, ahead, ttr, func() (*http.Response, error) {
				if since := time.Since(last); since > ttr/2 || since < ttr/4 && calls%3 != 2 {
					t.Errorf("with a clock that is %s ahead, %s passed since the last extension", ahead, since)
				}
				if calls++; calls%3 == 2 {
					return nil, errors.New("connection refused")
				}
				last = time.Now()
				return answer(http.StatusOK, strings.NewReader(`{"leased_until":"2000-01-01T00:00:20Z"}`))
			})
			if lost != nil {
				t.Errorf("with a clock that is %s ahead, the lease is lost: %v", ahead, lost)
			}
		})
	}
}

// TestAWorkerEndsAJobWhoseLeaseExpired, because another worker may have it.
func TestAWorkerEndsAJobWhoseLeaseExpired(t *testing.T) {
	const ttr = 12 * time.Second
	for name, c := range map[string]struct {
		extend func() (*http.Response, error)
		after  time.Duration
	}{
		"refused": {func() (*http.Response, error) {
			return answer(http.StatusConflict, strings.NewReader(`{"status":409,"title":"Conflict"}`))
		}, ttr / 3},
		"unreachable": {func() (*http.Response, error) { return nil, errors.New("connection refused") }, ttr},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			lost := handleFor(t, time.Hour, 0, ttr, c.extend)
			if took := time.Since(began); took != c.after || !errors.Is(lost, ErrConflict) {
				t.Errorf("%s: the handler ended after %s: %v; want %s and %v", name, took, lost, c.after, ErrConflict)
			}
		})
	}
}

// handleFor runs a worker, whose clock is ahead of the server's, on one job until its handler is canceled or the limit
// is over. It returns the worker's lease error, nil if the lease has lasted.
func handleFor(
	t *testing.T, long, ahead, ttr time.Duration, extend func() (*http.Response, error),
) (lost error) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	reserved := false
	c, err := New(Options{URL: "http://wakecall.test", HTTPClient: &http.Client{Transport: answering(
		func(r *http.Request) (*http.Response, error) {
			switch {
			case strings.HasSuffix(r.URL.Path, "/extend"):
				return extend()
			case !strings.HasSuffix(r.URL.Path, "/reserve"):
				return answer(http.StatusNoContent, http.NoBody)
			case !reserved:
				reserved = true
				until := time.Now().Add(ttr - ahead).Format(time.RFC3339)
				return answer(http.StatusOK, strings.NewReader(
					fmt.Sprintf(`{"jobs":[{"lease":"l","id":"x","leased_until":"%s","ttr":"%s"}]}`, until, ttr)))
			}
			<-r.Context().Done()
			return nil, r.Context().Err()
		})}})
	if err != nil {
		t.Fatal(err)
	}
	w := Worker{Client: c, Topics: []string{"t"}, Failed: func(err error) { lost = err },
		Handle: func(ctx context.Context,
			_ *LeasedJob) error {
			defer stop()
			return sleep(ctx, long)
		}}
	if err := w.Run(ctx); err != nil {
		t.Error(err)
	}
	return lost
}

// workerOf is a worker for one job at a time, with scripted answers of the server.
func workerOf(t *testing.T, serve answering, handle func(context.Context, *LeasedJob) error) *Worker {
	c, err := New(Options{URL: "http://wakecall.test", HTTPClient: &http.Client{Transport: serve}})
	if err != nil {
		t.Fatal(err)
	}
	return &Worker{Client: c, Topics: []string{"t"}, Handle: handle}
}

const oneJob = `{"jobs":[{"lease":"l","topic":"t","id":"x","ttr":"1m"}]}`

// TestAStoppingWorkerReleasesJobsThatArrive: the server may have leased a job whose answer is on its way, and a lease
// that no worker ends counts as a failed attempt.
func TestAStoppingWorkerReleasesJobsThatArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var ended []string
		w := workerOf(t, func(r *http.Request) (*http.Response, error) {
			if !strings.HasSuffix(r.URL.Path, "/reserve") {
				ended = append(ended, r.URL.Path)
				return answer(http.StatusNoContent, http.NoBody)
			}
			stop()
			if err := sleep(r.Context(), 20*time.Millisecond); err != nil {
				return nil, err
			}
			return answer(http.StatusOK, strings.NewReader(oneJob))
		}, func(context.Context, *LeasedJob) error { return errors.New("it is handled") })
		if err := w.Run(ctx); err != nil || len(ended) != 1 || !strings.HasSuffix(ended[0], "/release") {
			t.Errorf("%v; ended %v", err, ended)
		}
	})
}

func TestAWorkerThatWaitsStopsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
		defer stop()
		began := time.Now()
		w := workerOf(t, func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}, nil)
		if err := w.Run(ctx); err != nil || time.Since(began) != 5*time.Second {
			t.Errorf("%v, after %s", err, time.Since(began))
		}
	})
}

// TestAWorkerDoesNotSpin while a stopping server answers long polls at once.
func TestAWorkerDoesNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		calls := 0
		w := workerOf(t, func(*http.Request) (*http.Response, error) {
			if calls++; calls == 1000 {
				stop()
			}
			return answer(http.StatusOK, strings.NewReader(`{"jobs":[]}`))
		}, nil)
		if err := w.Run(ctx); err != nil || calls > 20 {
			t.Errorf("%v; %d requests", err, calls)
		}
	})
}

func TestAPanicIsAFailedAttemptAndIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var reason []byte
		var failed error
		w := workerOf(t, func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/reserve") {
				return answer(http.StatusOK, strings.NewReader(oneJob))
			}
			stop()
			reason, _ = io.ReadAll(r.Body)
			return answer(http.StatusNoContent, http.NoBody)
		}, func(context.Context, *LeasedJob) error { panic("oops") })
		w.Failed = func(err error) { failed = err }
		if err := w.Run(ctx); err != nil || string(reason) != `{"reason":"panic: oops"}` {
			t.Errorf("%v; the reason is %s", err, reason)
		}
		if failed == nil || !strings.Contains(failed.Error(), "t/x: panic: oops") ||
			!strings.Contains(failed.Error(), "worker_test.go") {
			t.Errorf("failed %v", failed)
		}
	})
}

// TestAWorkerSendsTheResult: with the ack; one that is not JSON fails the attempt, instead of being refused again and
// again.
func TestAWorkerSendsTheResult(t *testing.T) {
	for result, want := range map[string]string{
		"": "/v1/leases/l/ack ", `{"eur":42}`: `/v1/leases/l/ack {"result":{"eur":42}}`,
		"42 EUR": `/v1/leases/l/fail {"reason":"the result must be JSON"}`,
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			sent := ""
			w := workerOf(t, func(r *http.Request) (*http.Response, error) {
				if strings.HasSuffix(r.URL.Path, "/reserve") {
					return answer(http.StatusOK, strings.NewReader(oneJob))
				}
				stop()
				if sent = r.URL.Path + " "; r.Body != nil {
					body, _ := io.ReadAll(r.Body)
					sent += string(body)
				}
				return answer(http.StatusNoContent, http.NoBody)
			}, func(_ context.Context, job *LeasedJob) error {
				if result != "" {
					job.Result = []byte(result)
				}
				return nil
			})
			if err := w.Run(ctx); err != nil || sent != want {
				t.Errorf("sent %s, want %s; %v", sent, want, err)
			}
		})
	}
}
