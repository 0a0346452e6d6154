package server

import (
	"cmp"
	"errors"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wakecall/wakecall/internal/store"
)

// batch is a request with many pushes. Each member succeeds or fails on its own.
type batch struct {
	request []byte
	members []part
	refused []error // by member; nil for those to push
	pushes  []store.Push
}

func (s *Server) pushBatch(c *call) error {
	limit := min(int64(s.limits.MaxBatch)*int64(s.limits.MaxBody+envelope), s.limits.MaxBatchBytes)
	if preferredWait(c.Request().Header) != "" {
		return errBatchWaits
	}
	return s.withBody(c, limit, func(body *buffer) error {
		var b batch
		if err := b.split(body.b, s.limits.MaxBatch); err != nil {
			return err
		}
		s.validate(c, &b)
		if err := s.accepting(b.pushes...); err != nil {
			return err
		}
		n, counted, err := s.admit(c, len(b.pushes))
		if err != nil {
			b.refuse(n, err)
		}
		for i := range b.pushes {
			b.pushes[i].Quota = counted
		}
		body.lent = true
		results := s.jobs.PushBatch(c.ctx(), b.pushes)
		body.lent = !stored(results)
		s.countBatch(&b, results)
		if err := allUnavailable(results); err != nil {
			return err
		}
		return s.answerBatch(c, &b, results)
	})
}

// split finds the members without decoding them. It fails only if the whole request is unreadable.
func (b *batch) split(data []byte, most int) error {
	r := struct {
		Jobs list[part] `json:"jobs"`
	}{list[part]{most: most}}
	err := decodeObject(data, &r)
	switch {
	case err != nil:
		return err
	case !r.Jobs.given:
		return badField("jobs", `required, as in {"jobs":[…]}`)
	case len(r.Jobs.items) == 0:
		return outOfRange("jobs", "must have 1 to %d jobs", most)
	}
	b.request, b.members = data, r.Jobs.items
	return nil
}

// refuse refuses the pushes from the nth on.
func (b *batch) refuse(n int, err error) {
	next := 0
	for i := range b.refused {
		if b.refused[i] != nil {
			continue
		}
		if next >= n {
			b.refused[i] = err
		}
		next++
	}
	b.pushes = b.pushes[:n]
}

// validate decodes each member and collects those that can be pushed.
func (s *Server) validate(c *call, b *batch) {
	b.refused = make([]error, len(b.members))
	b.pushes = make([]store.Push, 0, len(b.members))
	inherited := c.inheritedTrace()
	var r memberRequest // one for all
	for i := range b.members {
		r = memberRequest{}
		push, err := s.decodeMember(c, &r, b.members[i].of(b.request))
		if err != nil {
			b.refused[i] = err
			continue
		}
		push.Traceparent = cmp.Or(push.Traceparent, inherited)
		b.pushes = append(b.pushes, push)
	}
}

func (s *Server) decodeMember(c *call, r *memberRequest, member []byte) (p store.Push, err error) {
	if kind := jsontext.Value(member).Kind(); kind != jsontext.KindBeginObject {
		return p, badValue("expected an object, got %s", kindName(kind))
	}
	if err := decode(member, r); err != nil {
		return p, err
	}
	if r.Wait.given || r.OnTimeout.given {
		return p, errBatchWaits
	}
	if !r.Topic.given {
		return p, badField("topic", "required")
	}
	topic, err := s.topic(c, r.Topic.value, mayPush)
	if err != nil {
		return p, err
	}
	if err := acceptsPushes(topic); err != nil {
		return p, err
	}
	body, err := r.jsonBody(member)
	if err == nil {
		p, err = r.push(topic, body, s.limits.MaxBody, s.opts.Now())
	}
	if err != nil {
		s.countPush(topic.Name, resultRefused)
	}
	return p, err
}

// allUnavailable returns an error if no job of the batch was stored. The whole request is then answered with 503, so
// that clients wait as after a single push. A job that is stored, but not durably, gets its own answer.
func allUnavailable(results []store.Result) error {
	var away *store.UnavailableError
	for i := range results {
		if !errors.As(results[i].Err, &away) || away.Stored {
			return nil
		}
	}
	if away == nil {
		return nil // no member can be pushed
	}
	return away
}

func stored(results []store.Result) bool {
	for i := range results {
		if results[i].Err != nil {
			return false
		}
	}
	return true
}

func (s *Server) countBatch(b *batch, results []store.Result) {
	for i := range results {
		p := &b.pushes[i]
		if results[i].Err != nil {
			s.countPush(p.Topic, resultOf(pushProblem(&results[i], p)))
			continue
		}
		s.countPush(p.Topic, storedResult(p, &results[i]))
	}
}

// answerBatch answers with the job or the error of each member.
func (s *Server) answerBatch(c *call, b *batch, results []store.Result) error {
	views := make([]any, len(b.refused))
	next := 0
	for i, err := range b.refused {
		if err == nil {
			p, r := &b.pushes[next], &results[next]
			next++
			if r.Err == nil {
				views[i] = viewOfPushed(r)
				continue
			}
			err = s.memberError(c, p, r)
		}
		views[i] = map[string]any{"error": problemOf(err).view()}
	}
	return s.answer(c, http.StatusOK, map[string]any{"results": views})
}

func (s *Server) memberError(c *call, p *store.Push, r *store.Result) error {
	err := pushProblem(r, p)
	if problemOf(err).Status == http.StatusInternalServerError {
		s.log.Error("push failed", "request_id", requestID(c), "topic", p.Topic, "id", p.ID, "error", r.Err)
	}
	return err
}
