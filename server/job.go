package server

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/wakecall/wakecall/internal/observe/waits"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// shardRetry is how long a client should wait before it asks again for a job whose shard does not answer.
const shardRetry = time.Second

func (s *Server) getJob(c *call) error {
	job, err := s.jobs.Get(c.ctx(), c.topic.Name, c.id, store.Finished)
	var away *store.UnavailableError
	if down := s.jobs.DownFor(c.topic.Name, c.id); errors.As(err, &away) && len(down) > 0 {
		return unavailable(err, shardRetry, "job %s of topic %s cannot be read: shard %s does not answer. If the job "+
			"is there, it waits until the shard answers", c.id, c.topic.Name, strings.Join(down, ", "))
	}
	if err != nil {
		return c.jobProblem(err)
	}
	setETag(c, job.ETag)
	return s.answerWhole(c, job, s.waitsOf(c.ctx(), job))
}

func (s *Server) waitsOf(ctx context.Context, j *store.Job) []waits.Wait {
	if s.opts.Waits == nil {
		return nil
	}
	return waits.Find(ctx, s.opts.Waits, s.registry.Snapshot(), j)
}

func (s *Server) changeJob(c *call) error {
	return s.withBody(c, int64(s.limits.MaxBody)+envelope, func(body *buffer) error {
		var r changeRequest
		if err := decode(body.b, &r); err != nil {
			return err
		}
		change, err := r.change(c.topic, body.b, s.limits.MaxBody)
		if err != nil {
			return err
		}
		change.Match = c.jobMatch()
		body.lent = true
		job, err := s.jobs.Change(c.editing(), c.topic.Name, c.id, change)
		if err != nil {
			return c.jobProblem(err)
		}
		body.lent = false
		return s.answerJob(c, http.StatusOK, job)
	})
}

// change returns the change that a PATCH requests.
func (r *changeRequest) change(topic *registry.Topic, request []byte, maxBody int) (store.Change, error) {
	var change store.Change
	if !r.Body.given && !r.Delay.given && !r.DueAt.given && !r.TimeZone.given && !r.Priority.given && !r.URL.given {
		return change, badValue("nothing to change: one or more of body, delay, due_at, priority, url is required")
	}
	if err := r.checkTime(); err != nil {
		return change, err
	}
	if r.DueAt.given {
		change.DueAt = (*time.Time)(&r.DueAt.value.moment)
	}
	if r.Delay.given {
		change.Delay = (*time.Duration)(&r.Delay.value)
	}
	if r.Priority.given {
		change.Priority = (*store.Priority)(&r.Priority.value)
	}
	if r.URL.given {
		url, err := r.jobURL(topic)
		if err != nil {
			return change, err
		}
		change.URL = &url
	}
	if r.Body.given {
		body := r.Body.of(request)
		change.Body = &body
		return change, checkSize(body, maxBody)
	}
	return change, nil
}

func (s *Server) deleteJob(c *call) error {
	if err := s.jobs.Delete(c.editing(), c.topic.Name, c.id, c.jobMatch()); err != nil {
		return c.jobProblem(err)
	}
	return c.NoContent(http.StatusNoContent)
}

func (s *Server) runJob(c *call) error {
	job, err := s.jobs.RunNow(c.editing(), c.topic.Name, c.id, c.jobMatch())
	if err != nil {
		return c.jobProblem(err)
	}
	return s.answerJob(c, http.StatusAccepted, job)
}

func (s *Server) resendJob(c *call) error {
	if err := acceptsPushes(c.topic); err != nil {
		return err
	}
	job, err := s.jobs.Resend(c.editing(), c.topic.Name, c.id)
	if err != nil {
		return c.jobProblem(err)
	}
	return s.answerJob(c, http.StatusCreated, job)
}

func (s *Server) answerJob(c *call, status int, job *store.Job) error {
	setETag(c, job.ETag)
	return s.answer(c, status, viewOfJob(job))
}

func setETag(c *call, etag string) {
	if etag != "" {
		c.Response().Header().Set("ETag", `"`+etag+`"`)
	}
}

// jobMatch returns the If-Match of a request for a job. The job must exist anyway, so * adds no condition.
func (c *call) jobMatch() store.Match {
	etags, any := c.ifMatch()
	if any {
		return nil
	}
	return etags
}

// jobProblem explains an error of the queue about one job.
func (c *call) jobProblem(err error) error {
	topic, id := c.topic.Name, c.id
	switch {
	case errors.Is(err, store.ErrNotFound):
		return notFound(codeJobNotFound, "no job %s in topic %s: it never existed, was deleted or has ended; a "+
			"remembered job that has ended can be read with GET and sent again with POST …/resend; the "+
			"journals may know more: wakecall search ID, GET /v1/search?id=ID", id, topic)
	case errors.Is(err, store.ErrRunning):
		return conflict(codeJobRunning, "job %s of topic %s is running; try again after this attempt", id, topic)
	case errors.Is(err, store.ErrChanged):
		return &Problem{Status: http.StatusPreconditionFailed, Code: codeJobChanged, cause: err,
			Detail: "job " + id + " of topic " + topic + " has changed in the meantime; read it again"}
	case errors.Is(err, store.ErrDead):
		return conflict(codeJobDead, "job %s of topic %s is dead; POST …/run makes it ready again", id, topic)
	case errors.Is(err, store.ErrAlive):
		return conflict(codeJobNotEnded, "job %s of topic %s has not ended; POST …/run makes it due now", id, topic)
	case errors.Is(err, store.ErrBodyGone):
		return conflict(codeBodyGone, "the body of job %s of topic %s was too long to be remembered; push the job "+
			"again", id, topic)
	case errors.Is(err, store.ErrTooFar):
		return outOfRange("due_at", "must be at most 10 years ahead")
	case errors.Is(err, store.ErrExpires):
		return outOfRange("due_at", "must be before the job's expires_at")
	}
	return err
}
