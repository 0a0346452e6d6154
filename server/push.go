package server

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// envelope is the limit in bytes of a push without its body.
const envelope = 16 << 10

// acceptsPushes refuses pushes to a topic that is offline.
func acceptsPushes(topic *registry.Topic) error {
	if topic.State == registry.TopicOffline {
		return conflict(codeTopicOffline, "topic %s is offline and accepts no pushes; its state must be active or "+
			"paused", topic.Name)
	}
	return nil
}

// push returns the route of a single push. It also counts refused pushes.
func (s *Server) push(h handler, params ...string) echo.HandlerFunc {
	return s.authed(func(c *call) error {
		if err := s.readTopicName(c, mayPush); err != nil {
			return err
		}
		if err := acceptsPushes(c.topic); err != nil {
			return err
		}
		defer c.leave()
		err := c.readQuery(params...)
		if err == nil {
			err = h(c)
		}
		if err != nil {
			s.countPush(c.topic.Name, resultOf(err))
			return err
		}
		return s.awaitEnd(c)
	})
}

func (s *Server) pushJSON(c *call) error {
	return s.withBody(c, int64(s.limits.MaxBody)+envelope, func(body *buffer) error {
		var r pushRequest
		if err := decode(body.b, &r); err != nil {
			return err
		}
		job, err := r.jsonBody(body.b)
		if err != nil {
			return err
		}
		p, err := r.push(c.topic, job, s.limits.MaxBody, s.opts.Now())
		if err != nil {
			return err
		}
		return s.store(c, &r, &p, body)
	})
}

// store pushes the job and answers, unless the push waits for the job's end: awaitEnd does so then.
func (s *Server) store(c *call, r *pushRequest, p *store.Push, body *buffer) error {
	if err := s.accepting(*p); err != nil {
		return err
	}
	p.Traceparent = cmp.Or(p.Traceparent, c.inheritedTrace())
	if err := s.readWait(c, r, p); err != nil {
		return err
	}
	_, counted, err := s.admit(c, 1)
	if err != nil {
		return err
	}
	p.Quota = counted
	body.lent = true
	result := s.jobs.Push(c.ctx(), *p)
	if result.Err != nil {
		return pushProblem(&result, p)
	}
	body.lent = false
	s.countPush(p.Topic, storedResult(p, &result))
	if c.waiting != nil {
		c.waiting.result = result
		return nil
	}
	status := http.StatusOK
	switch {
	case result.Job.State == store.Spooled:
		status = http.StatusAccepted
	case !result.Duplicate:
		status = http.StatusCreated
		c.Response().Header()[echo.HeaderLocation] = []string{jobPath(p.Topic, result.Job.ID)}
	}
	setETag(c, result.Job.ETag)
	return s.answer(c, status, viewOfPushed(&result))
}

// writing refuses requests that the journal could not record.
func (s *Server) writing(h handler) handler {
	return func(c *call) error {
		if err := s.writable(); err != nil {
			return err
		}
		return h(c)
	}
}

// accepting is writable for pushes, which it counts as refused.
func (s *Server) accepting(pushes ...store.Push) error {
	err := s.writable()
	if err != nil && s.opts.Refused != nil {
		for i := range pushes {
			s.opts.Refused(pushes[i].Topic, "journal")
		}
	}
	return err
}

// writable refuses an edit while the journal cannot be written.
func (s *Server) writable() error {
	if err := s.healthy(); err != nil {
		return unavailable(err, 5*time.Second, "journal not writable, so nothing is accepted: %v", err)
	}
	return nil
}

// jobPath returns the path of a job. It encodes the ids . and .., which would be resolved as relative paths.
func jobPath(topic, id string) string {
	escaped := url.PathEscape(id)
	if id == "." || id == ".." {
		escaped = strings.ReplaceAll(id, ".", "%2E")
	}
	return "/v1/topics/" + topic + "/jobs/" + escaped
}

// pushProblem explains why the queue refused a push.
func pushProblem(r *store.Result, p *store.Push) error {
	err := r.Err
	switch {
	case errors.Is(err, store.ErrDuplicate):
		return &Problem{Status: http.StatusConflict, Code: codeJobExists, Field: "id", cause: err,
			Detail: "id: " + p.ID + " already exists in topic " + p.Topic + "; set on_duplicate to keep or replace"}
	case store.Stored(err):
		problem := problemOf(err)
		problem.ID = cmp.Or(r.Job.ID, p.ID) // the server may have generated the id
		return problem
	case errors.Is(err, store.ErrTooFar) && p.DueAt.IsZero():
		return outOfRange("delay", "must be at most 10 years")
	case errors.Is(err, store.ErrTooFar):
		return outOfRange("due_at", "must be at most 10 years ahead")
	}
	return err
}
