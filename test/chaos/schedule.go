package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/harness/ledger"
	"github.com/wakecall/wakecall/test/wait"
)

// tick is a schedule with an occurrence each second of the run. All are pushed, however late.
const tick, ticking = "tick", "steady"

// ticks are the occurrences of the schedule.
type ticks struct {
	first, last time.Time
	leftOut     map[string]int
}

func tickID(at time.Time) string { return tick + "@" + at.UTC().Format(time.RFC3339) }

// startTick makes the schedule.
func (s *site) startTick() {
	if !mixes("schedule") {
		return
	}
	s.hosts[0].MustDo(s.t, http.StatusCreated, http.MethodPut, "/v1/schedules/"+tick,
		M{"topic": ticking, "every": "1s", "body": tick, "missed": "all", "overlap": "allow"})
	s.ticks.first = time.Now().Truncate(time.Second).Add(time.Second)
}

// stopTick pauses the schedule once it has caught up.
func (s *site) stopTick(ctx context.Context) error {
	if s.ticks.first.IsZero() {
		return nil
	}
	var told struct {
		Last []struct {
			ScheduledFor time.Time `json:"scheduled_for"`
		}
		LeftOut map[string]int `json:"left_out"`
	}
	ask := func(method, path string) error {
		answer := s.hosts[0].Quick().Do(ctx, method, "/v1/schedules/"+tick+path, nil)
		if answer.Status != http.StatusOK {
			return fmt.Errorf("%s", answer)
		}
		return answer.JSON(&told)
	}
	began := time.Now()
	err := wait.Until(ctx, 100*time.Millisecond, func() error {
		if err := ask(http.MethodGet, ""); err != nil {
			return err
		}
		if len(told.Last) == 0 || told.Last[0].ScheduledFor.Before(began) {
			return fmt.Errorf("its last occurrences are %v", told.Last)
		}
		return nil
	})
	err = errors.Join(err, ask(http.MethodPost, "/pause"), ask(http.MethodGet, ""))
	if err != nil || len(told.Last) == 0 {
		return err
	}
	s.ticks.last, s.ticks.leftOut = told.Last[0].ScheduledFor, told.LeftOut
	return nil
}

// recordTicks records each occurrence as a push at its time, unless it was not called, and may be one of those that the
// schedule tells to have left out.
func (s *site) recordTicks(context.Context) error {
	if s.ticks.last.IsZero() {
		return nil
	}
	called := map[string]float64{}
	for _, e := range s.rec.Events() {
		if e.Kind == ledger.Call && e.Topic == ticking && strings.HasPrefix(e.ID, tick+"@") && called[e.ID] == 0 {
			called[e.ID] = e.At
		}
	}
	out, n, missing := 0, 0, []ledger.Event{}
	for _, left := range s.ticks.leftOut {
		out += left
	}
	if before := s.ticks.first.Add(-time.Second); called[tickID(before)] > 0 { // came before the answer to the request
		s.ticks.first = before
	}
	for at := s.ticks.first; !at.After(s.ticks.last); at = at.Add(time.Second) {
		n++
		e := ledger.Event{Kind: ledger.Push, At: ledger.MS(at), Topic: ticking, ID: tickID(at), SetsDue: true,
			Status: http.StatusCreated, Result: ledger.Acknowledged, Body: ledger.DigestJSON(tick)}
		if e.End = called[e.ID]; e.End == 0 {
			e.End = ledger.Now()
			missing = append(missing, e)
			continue
		}
		s.rec.Add(e)
	}
	s.t.Logf("%d occurrences of a schedule, %d called; it has left out %v", n, n-len(missing), s.ticks.leftOut)
	if len(missing) > out {
		s.rec.Add(missing...) // lost
	}
	return harness.Equal("occurrences that were left out", len(missing), out)
}
