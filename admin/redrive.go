package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/wakecall/wakecall/queue"
)

// deadFilter chooses dead jobs.
type deadFilter struct {
	Topic  string    `json:"topic,omitempty"` // empty: all
	Text   string    `json:"text,omitempty"`  // in the last error, the reason or the id
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since,omitzero"` // died then or later
	Until  time.Time `json:"until,omitzero"` // died before
}

func (f deadFilter) match(j *queue.Job) bool {
	switch {
	case f.Reason != "" && j.DeadReason != f.Reason,
		!f.Since.IsZero() && j.DeadAt.Before(f.Since),
		!f.Until.IsZero() && !j.DeadAt.Before(f.Until):
		return false
	case f.Text == "":
		return true
	}
	text := strings.ToLower(f.Text)
	return strings.Contains(strings.ToLower(lastError(j)), text) || strings.Contains(strings.ToLower(j.ID), text)
}

// lastError is what came of the job's last attempt, in words.
func lastError(j *queue.Job) string {
	if len(j.History) == 0 {
		return j.DeadReason
	}
	at := j.History[len(j.History)-1]
	if at.Error != "" {
		return at.Error
	}
	if at.Status > 0 {
		return fmt.Sprintf("HTTP %d", at.Status)
	}
	return j.DeadReason
}

// redriveParams are what a task does with dead jobs, and what came of it.
type redriveParams struct {
	Filter    deadFilter     `json:"filter"`
	IDs       []string       `json:"ids,omitempty"` // of Filter.Topic, instead of all that match
	Staged    bool           `json:"staged,omitempty"`
	Rate      float64        `json:"rate,omitempty"`       // jobs a second; 0: no limit
	StopAbove float64        `json:"stop_above,omitempty"` // share of failures
	Stages    []redriveStage `json:"stages,omitempty"`
}

// redriveStage is the report of one stage.
type redriveStage struct {
	Jobs      int64     `json:"jobs"`
	Redriven  int64     `json:"redriven"` // fewer when some were not dead any more
	Delivered int64     `json:"delivered"`
	Failed    int64     `json:"failed"`
	Waiting   int64     `json:"waiting"` // of which nothing is known yet
	BeganAt   time.Time `json:"began_at"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
}

// Rate is the share of failures among what is known.
func (s redriveStage) Rate() float64 {
	known := s.Delivered + s.Failed
	if known == 0 {
		return 0
	}
	return float64(s.Failed) / float64(known)
}

const (
	firstStage     = 10
	secondShare    = 10                     // per cent
	deadPage       = 500                    // dead jobs of one call
	redriveChunk   = 100                    // jobs of one call
	redriveLimit   = 1_000_000              // jobs of one task
	watchedAtOnce  = 200                    // jobs whose outcome is awaited; of more a part stands for all
	decidedEnough  = 10                     // outcomes before a rate says something
	redriveLook    = 500 * time.Millisecond // between looks at outcomes
	redrivePatient = 2 * time.Minute        // for the outcomes of a stage, beside the topic's TTR
)

type target struct{ topic, id string }

// redriveQueue is what bulk work on dead jobs needs.
type redriveQueue interface {
	List(ctx context.Context, topic string, s queue.State, cursor string, limit int) ([]queue.Job, string, error)
	Get(ctx context.Context, topic, id string) (*queue.Job, error)
	RedriveDead(ctx context.Context, topic string, ids []string, limit int) (int, error)
	DeleteDead(ctx context.Context, topic string, ids []string, limit int) (int, error)
}

// redriver carries out one task.
type redriver struct {
	queue   redriveQueue
	topics  []string
	now     func() time.Time
	look    time.Duration
	patient func(topic string) time.Duration
	run     *taskRun
	params  redriveParams
	watched map[target]bool
}

func (a *Admin) newRedriver(run *taskRun) (*redriver, error) {
	r := &redriver{queue: a.queue, now: a.opts.Now, look: redriveLook, run: run, watched: map[target]bool{}, patient: a.redrivePatience}
	if err := json.Unmarshal(run.Params, &r.params); err != nil {
		return nil, fmt.Errorf("read what the task should do: %w", err)
	}
	r.topics = []string{r.params.Filter.Topic}
	if r.params.Filter.Topic == "" {
		r.topics = a.topicNames()
	}
	return r, nil
}

func (a *Admin) redrivePatience(topic string) time.Duration {
	if t := a.registry.Snapshot().Topics[topic]; t != nil {
		return redrivePatient + t.TTR.Std()
	}
	return redrivePatient
}

// redriveTask makes dead jobs ready again, with care.
func (a *Admin) redriveTask(ctx context.Context, run *taskRun) error {
	r, err := a.newRedriver(run)
	if err != nil {
		return err
	}
	targets, err := r.find(ctx)
	if err != nil {
		return err
	}
	run.total(run.Done + int64(len(targets)))
	for i, stage := range r.stages(targets) {
		if err := r.stage(ctx, stage, i); err != nil {
			return err
		}
	}
	return nil
}

// deleteDeadTask deletes dead jobs.
func (a *Admin) deleteDeadTask(ctx context.Context, run *taskRun) error {
	r, err := a.newRedriver(run)
	if err != nil {
		return err
	}
	targets, err := r.find(ctx)
	if err != nil {
		return err
	}
	run.total(run.Done + int64(len(targets)))
	return r.chunks(ctx, targets, func(topic string, ids []string) error {
		n, err := r.queue.DeleteDead(ctx, topic, ids, len(ids))
		run.progress(int64(n), 0)
		return err
	})
}

// find lists what the task is for. What died after the task was made is not part of it: it may be what the task itself tried already.
func (r *redriver) find(ctx context.Context) ([]target, error) {
	if len(r.params.IDs) > 0 {
		list := make([]target, len(r.params.IDs))
		for i, id := range r.params.IDs {
			list[i] = target{r.params.Filter.Topic, id}
		}
		return list, nil
	}
	filter := r.params.Filter
	if filter.Until.IsZero() || filter.Until.After(r.run.CreatedAt) {
		filter.Until = r.run.CreatedAt
	}
	var list []target
	for _, topic := range r.topics {
		cursor := ""
		for {
			jobs, next, err := r.queue.List(ctx, topic, queue.Dead, cursor, deadPage)
			if err != nil {
				return nil, fmt.Errorf("list the dead jobs of %s: %w", topic, err)
			}
			for i := range jobs {
				if filter.match(&jobs[i]) {
					list = append(list, target{topic, jobs[i].ID})
				}
			}
			if cursor = next; cursor == "" || len(list) >= redriveLimit {
				break
			}
		}
	}
	return list, nil
}

// stages cuts the targets: 10, then 10 %, then all. Where that leaves nothing for a stage there are fewer.
func (r *redriver) stages(targets []target) [][]target {
	if !r.params.Staged {
		return cut(targets, len(targets))
	}
	return cut(targets, firstStage, max(firstStage, len(targets)*secondShare/100), len(targets))
}

// cut makes parts that end at these places.
func cut(targets []target, ends ...int) [][]target {
	var parts [][]target
	begin := 0
	for _, end := range ends {
		end = min(end, len(targets))
		if end > begin {
			parts = append(parts, targets[begin:end])
			begin = end
		}
	}
	return parts
}

// stage re-drives its jobs and waits for what comes of them. Too many failures end the task.
func (r *redriver) stage(ctx context.Context, targets []target, number int) error {
	r.params.Stages = append(r.params.Stages, redriveStage{Jobs: int64(len(targets)), BeganAt: r.now().UTC()})
	s := &r.params.Stages[len(r.params.Stages)-1]
	defer func() {
		s.EndedAt = r.now().UTC()
		r.run.report(r.params)
	}()
	clear(r.watched)
	var longest time.Duration
	err := r.chunks(ctx, targets, func(topic string, ids []string) error {
		longest = max(longest, r.patient(topic))
		return r.redrive(ctx, s, topic, ids)
	})
	if err != nil {
		return err
	}
	return r.await(ctx, s, longest, number)
}

func (r *redriver) redrive(ctx context.Context, s *redriveStage, topic string, ids []string) error {
	n, err := r.queue.RedriveDead(ctx, topic, ids, len(ids))
	s.Redriven += int64(n)
	r.run.progress(int64(len(ids)), 0)
	if err != nil {
		return fmt.Errorf("make dead jobs of %s ready: %w", topic, err)
	}
	for _, id := range ids {
		if len(r.watched) < watchedAtOnce {
			r.watched[target{topic, id}] = true
		}
	}
	if err := r.observe(ctx, s); err != nil {
		return err
	}
	return r.judge(s)
}

// chunks calls do with jobs of one topic at a time, no faster than the rate.
func (r *redriver) chunks(ctx context.Context, targets []target, do func(topic string, ids []string) error) error {
	size := redriveChunk
	if r.params.Rate > 0 {
		size = max(1, min(size, int(r.params.Rate)))
	}
	for len(targets) > 0 {
		topic := targets[0].topic
		var ids []string
		for len(targets) > 0 && targets[0].topic == topic && len(ids) < size {
			ids = append(ids, targets[0].id)
			targets = targets[1:]
		}
		if err := do(topic, ids); err != nil {
			return err
		}
		if r.params.Rate <= 0 {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			continue
		}
		if err := pause(ctx, time.Duration(float64(len(ids))/r.params.Rate*float64(time.Second))); err != nil {
			return err
		}
	}
	return nil
}

// observe looks what became of the watched jobs.
func (r *redriver) observe(ctx context.Context, s *redriveStage) error {
	for t := range r.watched {
		job, err := r.queue.Get(ctx, t.topic, t.id)
		if err != nil && !errors.Is(err, queue.ErrNotFound) {
			return fmt.Errorf("look what became of %s/%s: %w", t.topic, t.id, err)
		}
		switch outcome(job) {
		case outcomeDelivered:
			s.Delivered++
		case outcomeFailed:
			s.Failed++
			r.run.progress(0, 1)
		default:
			continue
		}
		delete(r.watched, t)
	}
	s.Waiting = int64(len(r.watched))
	r.run.report(r.params)
	return nil
}

type outcomeKind int

const (
	outcomeUnknown outcomeKind = iota
	outcomeDelivered
	outcomeFailed
)

// outcome judges a job that was made ready: with attempts 0, and gone once it is delivered.
func outcome(j *queue.Job) outcomeKind {
	switch {
	case j == nil:
		return outcomeDelivered
	case j.State == queue.Dead, j.State == queue.Delayed && j.Attempts > 0:
		return outcomeFailed
	case j.State == queue.Delayed && j.Snoozes > 0:
		return outcomeDelivered // it answered, and asked for more time
	}
	return outcomeUnknown
}

// judge ends the task when too much of what is known failed.
func (r *redriver) judge(s *redriveStage) error {
	known := s.Delivered + s.Failed
	if !r.params.Staged || r.params.StopAbove <= 0 || known < min(decidedEnough, s.Jobs) {
		return nil
	}
	if s.Rate() > r.params.StopAbove {
		return &stoppedError{sayable{"tasks.why_failing", []any{s.Failed, known, percent(r.params.StopAbove)}}}
	}
	return nil
}

// await waits until the outcomes of a stage are known. Without any the next stage would be blind.
func (r *redriver) await(ctx context.Context, s *redriveStage, patience time.Duration, number int) error {
	if !r.params.Staged {
		return nil
	}
	until := r.now().Add(patience)
	for {
		if err := r.observe(ctx, s); err != nil {
			return err
		}
		if err := r.judge(s); err != nil || s.Waiting == 0 {
			return err
		}
		if r.now().After(until) {
			break
		}
		if err := pause(ctx, r.look); err != nil {
			return err
		}
	}
	if s.Delivered+s.Failed < (s.Delivered+s.Failed+s.Waiting)/2 {
		return &stoppedError{sayable{"tasks.why_waiting", []any{s.Waiting, number + 1, duration(patience)}}}
	}
	return nil
}
