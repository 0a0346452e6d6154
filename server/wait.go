package server

import (
	"cmp"
	"errors"
	"fmt"
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
			value = strings.Trim(strings.TrimSpace(value), `"`)
			if _, err := strconv.ParseUint(value, 10, 64); err == nil && strings.EqualFold(strings.TrimSpace(name), "wait") {
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
		delay = time.Until(p.DueAt)
	}
	if w.time < delay {
		return outOfRange("wait", "must not be shorter than the delay: the job is due in %s", delay.Round(time.Millisecond))
	}
	var err error
	if w.Wait, err = s.answers.Enter(store.Ref{Topic: p.Topic, ID: p.ID}); err != nil {
		s.metrics.waits.WithLabelValues("refused").Inc()
		return &Problem{Status: http.StatusTooManyRequests, Detail: err.Error(), RetryAfter: time.Second, cause: err}
	}
	c.waiting, p.Awaited = w, true
	return nil
}

// refuseWait refuses to wait for the jobs of a batch.
func refuseWait(given bool) error {
	if given {
		return outOfRange("wait", "a batch does not wait; push the job by itself")
	}
	return nil
}

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
	outcome, err := s.waitForEnd(c, w)
	s.metrics.waits.WithLabelValues(outcome).Inc()
	return err
}

func (s *Server) waitForEnd(c *call, w *pushWaiting) (outcome string, err error) {
	pushed := &w.result.Job
	if answers.Over(pushed) { // a duplicate
		return string(pushed.State), s.answerEnd(c, http.StatusOK, pushed, false)
	}
	created := pushed.CreatedAt
	if pushed.State == store.Spooled {
		created = time.Time{} // when a shard has it
	}
	w.Pushed(created)
	_ = http.NewResponseController(c.Response().Writer).SetWriteDeadline(time.Now().Add(w.time + s.limits.WriteTimeout))
	over := time.NewTimer(w.time)
	defer over.Stop()
	select {
	case <-c.ctx().Done():
		return "left", nil
	case <-s.stopping.Done():
		return s.answerPresent(c, "stopped", false)
	case <-over.C:
		return s.answerPresent(c, "timeout", w.delete)
	case job := <-w.Ended():
		if job == nil {
			return "gone", jobGone(pushed)
		}
		return string(job.State), s.answerEnd(c, http.StatusOK, job, false)
	}
}

func jobGone(j *store.Job) error {
	return conflict(codeJobGone, "job %s of topic %s was deleted or replaced before it ended", j.ID, j.Topic)
}

// answerPresent answers with the job as it is, which may have ended just now. With remove it deletes it, unless it runs.
func (s *Server) answerPresent(c *call, outcome string, remove bool) (string, error) {
	pushed := &c.waiting.result.Job
	job, err := s.jobs.Get(c.ctx(), pushed.Topic, pushed.ID, store.Finished)
	switch known := pushed.State != store.Spooled; {
	case known && (errors.Is(err, store.ErrNotFound) || err == nil && !job.CreatedAt.Equal(pushed.CreatedAt)):
		return "gone", jobGone(pushed)
	case err != nil:
		return outcome, s.answerEnd(c, http.StatusAccepted, pushed, false)
	case answers.Over(job):
		return string(job.State), s.answerEnd(c, http.StatusOK, job, false)
	}
	if remove = remove && job.State != store.Running; remove {
		remove = s.jobs.Delete(c.editing(), job.Topic, job.ID, store.Match{job.ETag}) == nil // not if it runs by now
	}
	return outcome, s.answerEnd(c, http.StatusAccepted, job, remove)
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
	if err := s.answer(c, status, v); err != nil {
		return fmt.Errorf("answer with the end of %s/%s: %w", j.Topic, j.ID, err)
	}
	return nil
}
