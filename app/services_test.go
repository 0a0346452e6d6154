package app

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/wait"
)

func untilDone(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func quickServices(t *testing.T) *services {
	return &services{log: slog.New(slog.NewTextHandler(t.Output(), nil)), firstPause: time.Millisecond}
}

var eventually = wait.For

// start runs services until the test stops them; stop returns what the run returned.
func start(t *testing.T, s *services, list ...service) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx, list...) }()
	stop = func() error {
		cancel()
		return <-ended
	}
	t.Cleanup(cancel)
	return stop
}

func TestAServiceThatFailsIsRestartedAndDisturbsNoOther(t *testing.T) {
	s := quickServices(t)
	var starts, others atomic.Int32
	stop := start(t, s,
		service{"steady", func(ctx context.Context) error { others.Add(1); return untilDone(ctx) }},
		service{"shaky", func(ctx context.Context) error {
			if n := starts.Add(1); n < 4 {
				return errors.New("no such table")
			}
			return untilDone(ctx)
		}})
	eventually(t, "three restarts", func() bool { return starts.Load() == 4 })
	eventually(t, "the state", func() bool { return s.list()[1].State == serviceRunning })
	states := s.list()
	if st := states[1]; st.Name != "shaky" || st.Restarts != 3 || st.Error != "no such table" || st.Since.IsZero() {
		t.Errorf("the service that failed: %+v", st)
	}
	if st := states[0]; st.State != serviceRunning || st.Restarts != 0 || st.Error != "" || others.Load() != 1 {
		t.Errorf("the other one, started %d times: %+v", others.Load(), st)
	}
	if err := stop(); err != nil {
		t.Errorf("stopped with %v", err)
	}
}

func TestAServiceThatEndsByItselfIsRestarted(t *testing.T) {
	s := quickServices(t)
	var starts atomic.Int32
	stop := start(t, s, service{"short", func(context.Context) error { starts.Add(1); return nil }})
	eventually(t, "a second start", func() bool { return starts.Load() > 1 })
	eventually(t, "an error", func() bool { return s.list()[0].Error != "" })
	if err := stop(); err != nil {
		t.Errorf("stopped with %v", err)
	}
}

func TestAServiceWaitsLongerAfterEachFailure(t *testing.T) {
	s := quickServices(t)
	var at [5]time.Time
	var starts atomic.Int32
	stop := start(t, s, service{"failing", func(ctx context.Context) error {
		n := starts.Add(1)
		if at[n-1] = time.Now(); int(n) == len(at) {
			return untilDone(ctx)
		}
		return errors.New("again")
	}})
	eventually(t, "five starts", func() bool { return int(starts.Load()) == len(at) })
	if err := stop(); err != nil {
		t.Error(err)
	}
	for i := 1; i < len(at); i++ {
		if pause, want := at[i].Sub(at[i-1]), time.Millisecond<<(i-1); pause < want {
			t.Errorf("pause %d was %s, want at least %s", i, pause, want)
		}
	}
}

func TestStopWaitsForAllServicesAndReportsTheirErrors(t *testing.T) {
	s := quickServices(t)
	first := make(chan struct{})
	var ended atomic.Int32
	failed := errors.New("not everything was written")
	stop := start(t, s,
		service{"first", func(ctx context.Context) error {
			defer close(first)
			<-ctx.Done()
			ended.Add(1)
			return failed
		}},
		service{"last", func(ctx context.Context) error {
			<-first
			ended.Add(1)
			return nil
		}},
		service{"waits", func(context.Context) error { return errors.New("x") }})
	eventually(t, "all three", func() bool { return len(s.list()) == 3 && s.list()[2].Error != "" })
	if err := stop(); !errors.Is(err, failed) || ended.Load() != 2 {
		t.Errorf("stopped with %v after %d of 2 ended", err, ended.Load())
	}
}
