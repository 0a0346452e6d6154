package server

import (
	"errors"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wakecall/wakecall/queue"
)

// batch is a request of many pushes. Each member is judged by itself.
type batch struct {
	members [][]byte // as they stand in the request
	refused []error  // by member; nil for those that are pushed
	pushes  []queue.Push
}

func (s *Server) pushBatch(c *call) error {
	limit := min(int64(s.limits.MaxBatch)*int64(s.limits.MaxBody+envelope), s.limits.MaxBatchBytes)
	return s.withBody(c, limit, func(body *buffer) error {
		var b batch
		if err := b.split(body.b, s.limits.MaxBatch); err != nil {
			return err
		}
		if err := s.writable(); err != nil {
			return err
		}
		s.judge(c, &b)
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

// split finds the members without judging them: only what makes the whole unreadable is refused here.
func (b *batch) split(data []byte, most int) error {
	came := false
	err := decodeObject(data, "an object", func(d *decoder, name jsontext.Token) error {
		switch {
		case name.String() != "jobs":
			return unknownField(name.String(), "jobs")
		case came:
			return badField("jobs", "duplicate field")
		}
		came = true
		return d.array("jobs", func() error { return b.add(d, most) })
	})
	switch {
	case err != nil:
		return err
	case !came:
		return badField("jobs", `is missing; expected {"jobs":[…]}`)
	case len(b.members) == 0:
		return outOfRange("jobs", "an empty list; give 1 to %d jobs", most)
	}
	return nil
}

func (b *batch) add(d *decoder, most int) error {
	if len(b.members) == most {
		return outOfRange("jobs", "more than %d jobs; send them in several requests", most)
	}
	v, err := d.ReadValue()
	b.members = append(b.members, d.data[d.InputOffset()-int64(len(v)):d.InputOffset()])
	return err
}

// judge validates each member and collects those that can be pushed.
func (s *Server) judge(c *call, b *batch) {
	b.refused = make([]error, len(b.members))
	b.pushes = make([]queue.Push, 0, len(b.members))
	for i, member := range b.members {
		var in input
		if b.refused[i] = s.judgeMember(c, &in, member); b.refused[i] == nil {
			b.pushes = append(b.pushes, in.push)
		}
	}
}

func (s *Server) judgeMember(c *call, in *input, member []byte) error {
	if kind := jsontext.Value(member).Kind(); kind != '{' {
		return &Problem{Status: http.StatusBadRequest, Detail: "expected an object, got " + kindName(kind)}
	}
	if err := in.decode(member, batchFields); err != nil {
		return err
	}
	if in.came&fieldTopic == 0 {
		return badField("topic", "is missing")
	}
	topic, err := s.topic(c.ctx(), in.push.Topic, c.token, mayPush)
	if err != nil {
		return err
	}
	if err := takesPushes(topic); err != nil {
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

// memberView is the answer to a member of a batch: its job, or why it was refused.
type memberView struct {
	Job   *jobView     `json:",embed"`
	Error *problemView `json:"error,omitzero"`
}

func (s *Server) answerBatch(c *call, b *batch, results []queue.Result) error {
	jobs := make([]jobView, len(results))
	members := make([]memberView, len(b.members))
	next := 0
	for i, err := range b.refused {
		if err == nil {
			p, r := &b.pushes[next], &results[next]
			jobs[next] = viewOfPush(r)
			members[i].Job = &jobs[next]
			err = s.memberError(c, p, r)
			next++
		}
		if err != nil {
			problem := problemOf(err).view()
			members[i] = memberView{Error: &problem}
		}
	}
	return s.answer(c, http.StatusOK, struct {
		Results []memberView `json:"results"`
	}{members})
}

func (s *Server) memberError(c *call, p *queue.Push, r *queue.Result) error {
	if r.Err == nil {
		return nil
	}
	err := pushProblem(r, p)
	if problemOf(err).Status == http.StatusInternalServerError {
		s.log.Error("push failed", "request_id", requestID(c), "topic", p.Topic, "id", p.ID, "err", r.Err)
	}
	return err
}
