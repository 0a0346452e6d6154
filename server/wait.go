package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wakecall/wakecall/internal/queue/answers"
	"github.com/wakecall/wakecall/internal/store"
)

// maxPushWait is how long a push may wait for the end of its job.
const maxPushWait = time.Minute

// pushWait is how long a push waits.
type pushWait time.Duration

func (d *pushWait) UnmarshalJSON(v []byte) error {
	read, err := durationBetween(v, 0, maxPushWait)
	*d = pushWait(read)
	return err
}

// onTimeout says whether the job is deleted when the wait is over.
type onTimeout bool

func (o *onTimeout) UnmarshalText(text []byte) error {
	return oneOf(text, map[string]bool{"keep": false, "delete": true}, (*bool)(o))
}

// pushWaiting is a push whose client waits for the end of the job.
type pushWaiting struct {
	*answers.Wait
	time   time.Duration
	delete bool         // when it is over
	result store.Result // of the push
}

const headerPrefer, headerPreferenceApplied = "Prefer", "Preference-Applied"

// preferredWait returns the seconds that a Prefer header asks to wait (RFC 7240); "" for none, or a malformed one.
func preferredWait(h http.Header) string {
	for _, line := range h[headerPrefer] {
		for preference := range strings.SplitSeq(line, ",") {
			preference, _, _ = strings.Cut(preference, ";")
			name, value, _ := strings.Cut(preference, "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			value = strings.Trim(strings.TrimSpace(value), `"`)
			if _, err := strconv.ParseUint(value, 10, 64); err == nil {
				return value
			}
		}
	}
	return ""
}

// readWait makes the push wait for the end of its job, if it asks for that.
func (s *Server) readWait(c *call, r *pushRequest, p *store.Push) error {
	wait, seconds := r.Wait.value, preferredWait(c.Request().Header)
	switch {
	case r.Wait.given:
	case seconds != "":
		if err := wait.UnmarshalJSON([]byte(seconds)); err != nil {
			return problemOf(err).in(headerPrefer)
		}
		c.Response().Header().Set(headerPreferenceApplied, "wait="+seconds)
	case r.OnTimeout.given:
		return badField("on_timeout", "requires wait")
	}
	w := &pushWaiting{time: time.Duration(wait), delete: bool(r.OnTimeout.value)}
	if w.time <= 0 {
		return nil
	}
	if err := allow(c.token, mayRead, p.Topic); err != nil {
		return err
	}
	delay := p.Delay
	if !p.DueAt.IsZero() {
		delay = p.DueAt.Sub(s.opts.Now())
	}
	if w.time < delay {
		return outOfRange("wait", "must not be shorter than the delay: the job is due in %s",
			delay.Round(time.Millisecond))
	}
	var err error
	if w.Wait, err = s.answers.Enter(store.Ref{Topic: p.Topic, ID: p.ID}); err != nil {
		s.metrics.waits.WithLabelValues("refused").Inc()
		return &Problem{Status: http.StatusTooManyRequests, Detail: err.Error(), RetryAfter: time.Second, cause: err}
	}
	c.waiting, p.Awaited = w, true
	return nil
}

var errBatchWaits = outOfRange("wait", "a batch does not wait; push the job by itself")

func (c *call) leave() {
	if c.waiting != nil {
		c.waiting.Leave()
	}
}

// awaitEnd waits for the end of the pushed job, if the push asks for that, and answers.
func (s *Server) awaitEnd(c *call) error {
	w := c.waiting
	if w == nil {
		return nil
	}
	job, outcome := s.waitForEnd(c, w)
	if job != nil && isOver(job) {
		outcome = string(job.State)
	}
	defer func() { s.metrics.waits.WithLabelValues(outcome).Inc() }()
	pushed := &w.result.Job
	switch {
	case outcome == "left":
		return nil
	case job == nil:
		outcome = "gone"
		return conflict(codeJobGone, "job %s of topic %s was deleted or replaced before it ended",
			pushed.ID, pushed.Topic)
	case isOver(job):
		return s.answerEnd(c, http.StatusOK, job, false)
	}
	remove := w.delete && outcome == "timeout" && job.ETag != "" && job.State != store.Running
	if remove { // unless it runs by now
		remove = s.jobs.Delete(c.editing(), job.Topic, job.ID, store.Match{job.ETag}) == nil
	}
	return s.answerEnd(c, http.StatusAccepted, job, remove)
}

// waitForEnd returns the job when it has ended, or as it is when the wait ends otherwise; nil if it is gone.
func (s *Server) waitForEnd(c *call, w *pushWaiting) (job *store.Job, outcome string) {
	if isOver(&w.result.Job) { // a duplicate
		return &w.result.Job, ""
	}
	_ = http.NewResponseController(c.Response().Writer).SetWriteDeadline(time.Now().Add(w.time + s.limits.WriteTimeout))
	over := time.NewTimer(w.time)
	defer over.Stop()
	for outcome == "" {
		if job = s.present(c.ctx(), w); job == nil || isOver(job) {
			return job, ""
		}
		select {
		case <-w.Told:
		case <-c.ctx().Done():
			return nil, "left"
		case <-s.stopping.Done():
			outcome = "stopped"
		case <-over.C:
			outcome = "timeout"
		}
	}
	return s.present(c.ctx(), w), outcome
}

func isOver(j *store.Job) bool { return j.State == store.Finished || j.State == store.Dead }

// present returns the job as it is, or as it was pushed while that is not known; nil if it was deleted or replaced.
func (s *Server) present(ctx context.Context, w *pushWaiting) *store.Job {
	pushed := &w.result.Job
	found, err := s.jobs.Find(ctx, []store.Ref{{Topic: pushed.Topic, ID: pushed.ID}})
	job := found[0]
	if job == nil && err == nil { // the journal of an absent host may have it
		job, err = s.jobs.Get(ctx, pushed.Topic, pushed.ID, store.Finished)
	}
	switch spooled := pushed.State == store.Spooled; {
	case job == nil && (spooled || !errors.Is(err, store.ErrNotFound)):
		return pushed
	case job != nil && (spooled || job.CreatedAt.Equal(pushed.CreatedAt)):
		return job
	}
	return nil
}

// endView is the answer to a push that waited.
type endView struct {
	*jobView
	Result    jsontext.Value `json:"result,omitzero"` // of a job that is done
	Truncated bool           `json:"truncated,omitzero"`
	Error     string         `json:"error,omitzero"`   // of the last attempt of a dead job
	Deleted   bool           `json:"deleted,omitzero"` // by on_timeout
}

func (s *Server) answerEnd(c *call, status int, j *store.Job, deleted bool) error {
	v := &endView{jobView: viewOfJob(j), Deleted: deleted}
	v.Duplicate = c.waiting.result.Duplicate
	switch answer := j.KnownAnswer(); {
	case j.State == store.Dead && len(j.History) > 0:
		v.Error = j.History[len(j.History)-1].Error
	case j.State == store.Finished:
		answer = cmp.Or(answer, &store.Answer{Result: []byte("null")})
		v.Result, v.Truncated = jsontext.Value(answer.Result), answer.Truncated
	}
	setETag(c, j.ETag)
	return s.answer(c, status, v)
}
