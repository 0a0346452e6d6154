package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
)

// batch is a request of many pushes. Each member is judged by itself.
type batch struct {
	members [][]byte // as they stand in the request
	refused []error  // by member; nil for those that are pushed
	pushes  []queue.Push
}

func (s *Server) pushBatch(c echo.Context, token *registry.Token) error {
	// Without the right on any topic there is nothing to read.
	if err := allowSomewhere(token, mayPush); err != nil {
		return err
	}
	if _, err := query(c); err != nil {
		return err
	}
	buf := s.buffers.get()
	clean, err := s.pushAll(c, token, buf)
	s.giveBack(buf, clean)
	return err
}

func (s *Server) pushAll(c echo.Context, token *registry.Token, buf *buffer) (clean bool, err error) {
	limit := min(int64(s.limits.MaxBatch)*int64(s.limits.MaxBody+envelope), s.limits.MaxBatchBytes)
	if err := s.read(c.Request(), buf, limit); err != nil {
		return true, err
	}
	var b batch
	if err := b.split(buf.b, s.limits.MaxBatch); err != nil {
		return true, err
	}
	if err := s.writable(); err != nil {
		return true, err
	}
	s.judge(c.Request().Context(), &b, token)
	results := s.jobs.PushBatch(c.Request().Context(), b.pushes)
	if err := allUnavailable(results); err != nil {
		s.countBatch(&b, results)
		return false, err
	}
	s.countBatch(&b, results)
	return stored(results), s.answerBatch(c, &b, results)
}

// split finds the members without judging them: only what makes the whole unreadable is refused here.
func (b *batch) split(data []byte, most int) error {
	s := scanner{data: data, depth: maxScanDepth}
	if s.space(); s.pos == len(data) {
		return s.errorf("the request has no body; expected an object")
	}
	came := false
	err := s.object("the request", func(key []byte) error {
		if string(key) != "jobs" {
			return unknownField(string(key))
		}
		if came {
			return badField("jobs", "stands twice")
		}
		came = true
		return s.array("jobs", func() error { return b.add(&s, most) })
	})
	if err != nil {
		return err
	}
	if !came {
		return badField("jobs", `is missing; expected {"jobs":[…]}`)
	}
	if len(b.members) == 0 {
		return outOfRange("jobs", "an empty list; give 1 to %d jobs", most)
	}
	return s.end()
}

func (b *batch) add(s *scanner, most int) error {
	if len(b.members) == most {
		return outOfRange("jobs", "more than %d jobs; send them in several requests", most)
	}
	member, err := s.value()
	b.members = append(b.members, member)
	return err
}

// judge validates each member and collects those that can be pushed.
func (s *Server) judge(ctx context.Context, b *batch, token *registry.Token) {
	b.refused = make([]error, len(b.members))
	b.pushes = make([]queue.Push, 0, len(b.members))
	for i, member := range b.members {
		var in input
		if b.refused[i] = s.judgeMember(ctx, &in, member, token); b.refused[i] == nil {
			b.pushes = append(b.pushes, in.push)
		}
	}
}

func (s *Server) judgeMember(ctx context.Context, in *input, member []byte, token *registry.Token) error {
	if member[0] != '{' {
		return &Problem{Status: http.StatusBadRequest, Detail: "expected an object, got " + kindOf(member[0])}
	}
	if err := in.decode(member, batchFields); err != nil {
		return err
	}
	if in.came&fieldTopic == 0 {
		return badField("topic", "is missing")
	}
	topic, err := s.pushTopic(ctx, in.push.Topic, token)
	if err != nil {
		return err
	}
	err = in.complete(topic, s.limits.MaxBody)
	if err != nil {
		s.metrics.pushed(topic.Name, resultRefused)
	}
	return err
}

// allUnavailable answers a batch of which nothing could be stored as a whole, so that clients wait as they do for one push. Of what is stored, but not
// safely, each has its own answer.
func allUnavailable(results []queue.Result) error {
	var away *queue.UnavailableError
	for i := range results {
		if !errors.As(results[i].Err, &away) || away.Stored {
			return nil
		}
	}
	if away == nil {
		return nil // there was nothing to push
	}
	return away
}

func stored(results []queue.Result) bool {
	for i := range results {
		if results[i].Err != nil {
			return false
		}
	}
	return true
}

func (s *Server) countBatch(b *batch, results []queue.Result) {
	for i := range results {
		p := &b.pushes[i]
		if results[i].Err != nil {
			s.metrics.pushed(p.Topic, resultOf(pushProblem(&results[i], p)))
			continue
		}
		s.metrics.pushed(p.Topic, storedResult(p, &results[i]))
	}
}

func (s *Server) answerBatch(c echo.Context, b *batch, results []queue.Result) error {
	out := s.buffers.get()
	defer s.buffers.put(out)
	out.b = append(out.b, `{"results":[`...)
	next := 0
	for i, refused := range b.refused {
		if i > 0 {
			out.b = append(out.b, ',')
		}
		if refused != nil {
			out.b = appendMemberProblem(out.b, problemOf(refused))
			continue
		}
		out.b = s.appendResult(c, out.b, &b.pushes[next], &results[next])
		next++
	}
	out.b = append(out.b, ']', '}')
	return answer(c, http.StatusOK, jsonType, out.b)
}

func (s *Server) appendResult(c echo.Context, b []byte, p *queue.Push, r *queue.Result) []byte {
	if r.Err == nil {
		return appendPushed(b, &r.Job, r.Duplicate)
	}
	problem := problemOf(pushProblem(r, p))
	if problem.Status == http.StatusInternalServerError {
		s.log.Error("push failed", "request_id", requestID(c), "topic", p.Topic, "id", p.ID, "err", r.Err)
	}
	return appendMemberProblem(b, problem)
}
