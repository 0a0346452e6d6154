package bulk

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/wakecall/wakecall/internal/queue"
)

// Stage reports on one part of a re-drive.
type Stage struct {
	From      int64     `json:"from"` // in the list of jobs
	Jobs      int64     `json:"jobs"`
	Redriven  int64     `json:"redriven"` // fewer if some were no longer dead
	Delivered int64     `json:"delivered"`
	Failed    int64     `json:"failed"`
	Waiting   int64     `json:"waiting"` // whose outcome is not known yet
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

// Watched is the most jobs of a stage that are tracked to their outcome; in a larger stage they are a sample.
const Watched = 200

const (
	firstStage    = 10
	secondPercent = 10
	judgedFrom    = 10 // known outcomes that a judgement needs
	observeEvery  = 500 * time.Millisecond
)

// stageEnd returns where the stage that includes a position in the list ends: after 10 jobs, 10 %, or all.
func (w *work) stageEnd(at int64) int64 {
	if !w.params.Staged {
		return w.run.Total
	}
	for _, end := range []int64{firstStage, max(firstStage, w.run.Total*secondPercent/100)} {
		if at < end {
			return min(end, w.run.Total)
		}
	}
	return w.run.Total
}

// stage returns the current stage; nil between stages, and for tasks without stages.
func (w *work) stage() *Stage {
	n := len(w.params.Stages)
	if n == 0 || !w.params.Stages[n-1].EndedAt.IsZero() {
		return nil
	}
	return &w.params.Stages[n-1]
}

func (w *work) beginStage() {
	if w.run.Kind != KindRedrive || w.stage() != nil {
		return
	}
	from, now := w.run.Done, w.run.runner.Now().UTC()
	w.params.Stages = append(w.params.Stages, Stage{From: from, Jobs: w.stageEnd(from) - from, BeganAt: now})
	clear(w.watched)
	w.longest = 0
}

// resume tracks the jobs that a stage re-drove before a restart, and counts all their outcomes anew.
func (w *work) resume(f *os.File) error {
	s := w.stage()
	if s == nil {
		return nil
	}
	w.run.progress(0, -s.Failed)
	s.Delivered, s.Failed = 0, 0
	done, _, err := w.readTargets(bufio.NewReader(f), w.run.Done)
	if err != nil {
		return err
	}
	w.watch(done[min(int(s.From), len(done)):])
	return nil
}

// outcomePatience is how long a stage waits for its outcomes, in addition to the TTR of its jobs.
const outcomePatience = 2 * time.Minute

func (w *work) patience(topic string) time.Duration {
	if t := w.run.runner.Registry.Snapshot().Topics.Get(topic); t != nil {
		return outcomePatience + t.TTR.Std()
	}
	return outcomePatience
}

func (w *work) watch(targets []target) {
	for _, t := range targets {
		w.longest = max(w.longest, w.patience(t.Topic))
		if len(w.watched) < Watched {
			w.watched[queue.Ref{Topic: t.Topic, ID: t.ID}] = true
		}
	}
}

// afterChunk checks the outcomes so far; at the end of a stage it waits for them.
func (w *work) afterChunk(ctx context.Context, targets []target) error {
	s := w.stage()
	if s == nil {
		return nil
	}
	w.watch(targets)
	if err := w.observe(ctx, s); err != nil {
		return err
	}
	err := w.judgeStage(s)
	if err == nil && w.run.Done < w.stageEnd(s.From) {
		return nil
	}
	if err == nil {
		err = w.await(ctx, s)
	}
	if ctx.Err() == nil {
		s.EndedAt = w.run.runner.Now().UTC()
	}
	w.run.report(w.params)
	return err
}

// observe counts the outcomes of the watched jobs.
func (w *work) observe(ctx context.Context, s *Stage) error {
	for ref := range w.watched {
		job, err := w.queue.Get(ctx, ref.Topic, ref.ID)
		if err != nil && !errors.Is(err, queue.ErrNotFound) {
			return fmt.Errorf("read the outcome of %s/%s: %w", ref.Topic, ref.ID, err)
		}
		switch outcomeOf(job) {
		case delivered:
			s.Delivered++
		case failed:
			s.Failed++
			w.run.progress(0, 1)
		default:
			continue
		}
		delete(w.watched, ref)
	}
	s.Waiting = int64(len(w.watched))
	w.run.report(w.params)
	return nil
}

type outcome int

const (
	unknown outcome = iota
	delivered
	failed
)

// outcomeOf returns the outcome of a job that was made ready with 0 attempts; a delivered one is gone.
func outcomeOf(j *queue.Job) outcome {
	switch {
	case j == nil:
		return delivered
	case j.State == queue.Dead, j.State == queue.Delayed && j.Attempts > 0:
		return failed
	case j.State == queue.Delayed && j.Snoozes > 0:
		return delivered // the endpoint answered, and asked for more time
	}
	return unknown
}

// judgeStage ends a staged task when too many of the known outcomes are failures.
func (w *work) judgeStage(s *Stage) error {
	known := s.Delivered + s.Failed
	if !w.params.Staged || w.params.StopAbove <= 0 || known < min(judgedFrom, s.Jobs) || s.Rate() <= w.params.StopAbove {
		return nil
	}
	return stop("task.failing", s.Failed, known, fmt.Sprintf("%.1f %%", 100*w.params.StopAbove))
}

// await waits for the outcomes of a stage. Without any, the stage cannot be judged.
func (w *work) await(ctx context.Context, s *Stage) error {
	if !w.params.Staged {
		return nil
	}
	until := w.run.runner.Now().Add(w.longest)
	for s.Waiting > 0 && !w.run.runner.Now().After(until) {
		if err := pause(ctx, observeEvery); err != nil {
			return err
		}
		if err := w.observe(ctx, s); err != nil {
			return err
		}
		if err := w.judgeStage(s); err != nil {
			return err
		}
	}
	if s.Delivered+s.Failed < s.Waiting {
		return stop("task.waiting", s.Waiting, len(w.params.Stages), w.longest.String())
	}
	return nil
}
