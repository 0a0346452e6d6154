package bulk

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// Stage is the progress of one stage of a re-drive.
type Stage struct {
	From      int64     `json:"from"` // in the job list
	Jobs      int64     `json:"jobs"`
	Redriven  int64     `json:"redriven"` // fewer if some were no longer dead
	Delivered int64     `json:"delivered"`
	Failed    int64     `json:"failed"`
	Waiting   int64     `json:"waiting"` // jobs whose outcome is not yet known
	BeganAt   time.Time `json:"began_at"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
}

// Rate returns the share of failures among the known outcomes.
func (s Stage) Rate() float64 {
	known := s.Delivered + s.Failed
	if known == 0 {
		return 0
	}
	return float64(s.Failed) / float64(known)
}

const (
	tracked         = 200 // jobs of a stage that are tracked to their outcome: a sample, if the stage is larger
	firstStage      = 10
	secondPercent   = 10
	judgedFrom      = 10 // known outcomes required to judge a stage
	observeEvery    = 500 * time.Millisecond
	outcomePatience = 2 * time.Minute // how long a stage waits for its outcomes, in addition to the TTR of its jobs
)

// stageEnd returns the end of the stage that includes a position in the list: after 10 jobs, 10 %, or all.
func (w *work) stageEnd(at int64) int64 {
	if !w.params.Staged {
		return w.task.Total
	}
	for _, end := range []int64{firstStage, max(firstStage, w.task.Total*secondPercent/100)} {
		if at < end {
			return min(end, w.task.Total)
		}
	}
	return w.task.Total
}

// stage returns the current stage, or nil between stages and for tasks without stages.
func (w *work) stage() *Stage {
	n := len(w.params.Stages)
	if n == 0 || !w.params.Stages[n-1].EndedAt.IsZero() {
		return nil
	}
	return &w.params.Stages[n-1]
}

func (w *work) beginStage() {
	if w.params.Do != Retry || w.stage() != nil {
		return
	}
	from, now := w.task.Done, w.runner.Now().UTC()
	w.params.Stages = append(w.params.Stages, Stage{From: from, Jobs: w.stageEnd(from) - from, BeganAt: now})
	clear(w.pending)
	w.patience = 0
}

// resumeStage continues a stage after a restart. It tracks the stage's jobs again, and counts all their outcomes.
func (w *work) resumeStage(ctx context.Context, f *os.File) error {
	s := w.stage()
	if s == nil {
		return nil
	}
	w.task.Errors -= s.Failed
	s.Delivered, s.Failed = 0, 0
	done, _, err := w.readTargets(bufio.NewReader(f), w.task.Done)
	if err != nil {
		return err
	}
	return w.afterChunk(ctx, done[min(int(s.From), len(done)):])
}

// afterChunk tracks re-driven jobs and judges the stage by the outcomes so far. At the end of the stage it waits for
// them.
func (w *work) afterChunk(ctx context.Context, targets []target) error {
	s := w.stage()
	if s == nil {
		return nil
	}
	w.track(targets)
	err := w.judge(ctx, s)
	if err == nil && w.task.Done < w.stageEnd(s.From) {
		return nil
	}
	if err == nil && w.params.Staged {
		err = w.await(ctx, s)
	}
	if ctx.Err() == nil {
		s.EndedAt = w.runner.Now().UTC()
	}
	return err
}

func (w *work) track(targets []target) {
	topics := w.runner.Registry.Snapshot().Topics
	for _, t := range targets {
		patience := outcomePatience
		if topic := topics.Get(t.Topic); topic != nil {
			patience += topic.TTR.Std()
		}
		w.patience = max(w.patience, patience)
		if len(w.pending) < tracked {
			w.pending[store.Ref{Topic: t.Topic, ID: t.ID}] = true
		}
	}
}

// await waits for the outcomes of a stage. A stage without outcomes cannot be judged.
func (w *work) await(ctx context.Context, s *Stage) error {
	until := w.runner.Now().Add(w.patience)
	for s.Waiting > 0 && !w.runner.Now().After(until) {
		if err := w.pause(ctx, observeEvery); err != nil {
			return err
		}
		if err := w.judge(ctx, s); err != nil {
			return err
		}
	}
	if s.Delivered+s.Failed < s.Waiting {
		return stop("task.waiting", s.Waiting, len(w.params.Stages), w.patience.String())
	}
	return nil
}

// judge counts the outcomes known so far, and ends a staged task if too many of them are failures.
func (w *work) judge(ctx context.Context, s *Stage) error {
	if err := w.observe(ctx, s); err != nil {
		return err
	}
	known := s.Delivered + s.Failed
	enough := w.params.Staged && w.params.StopAbove > 0 && known >= min(judgedFrom, s.Jobs)
	if enough && s.Rate() > w.params.StopAbove {
		return stop("task.failing", s.Failed, known, fmt.Sprintf("%.1f%%", 100*w.params.StopAbove))
	}
	return nil
}

// observe counts the outcomes of the tracked jobs.
func (w *work) observe(ctx context.Context, s *Stage) error {
	for ref := range w.pending {
		job, err := w.queue.Get(ctx, ref.Topic, ref.ID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("read outcome of %s/%s: %w", ref.Topic, ref.ID, err)
		}
		switch outcomeOf(job) {
		case delivered:
			s.Delivered++
		case failed:
			s.Failed++
			w.task.Errors++
		default:
			continue
		}
		delete(w.pending, ref)
	}
	s.Waiting = int64(len(w.pending))
	return nil
}

type outcome int

const (
	unknown outcome = iota
	delivered
	failed
)

// outcomeOf returns the outcome of a job that was made ready with 0 attempts. If the job is gone, it was delivered.
func outcomeOf(j *store.Job) outcome {
	switch {
	case j == nil:
		return delivered
	case j.State == store.Dead, j.State == store.Delayed && j.Attempts > 0:
		return failed
	case j.State == store.Delayed && j.Snoozes > 0:
		return delivered // the endpoint responded, but asked for more time
	}
	return unknown
}
