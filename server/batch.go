package server

import (
	"errors"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wakecall/wakecall/internal/journal/member"
	"github.com/wakecall/wakecall/internal/queue"
)

// batch is a request with many pushes. Each member succeeds or fails on its own.
type batch struct {
	members [][]byte // as they are in the request
	refused []error  // by member; nil for those to push
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
		s.validate(c, &b)
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

// split finds the members without decoding them: it refuses only errors that make the whole request unreadable.
func (b *batch) split(data []byte, most int) error {
	found := false
	err := decodeObject(data, "an object", onceEach([]string{"jobs"}, func(d *decoder, field string) error {
		found = true
		return d.array(field, func() error { return b.add(d, most) })
	}))
	switch {
	case err != nil:
		return err
	case !found:
		return badField("jobs", `missing; expected {"jobs":[…]}`)
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

// validate decodes each member and collects those that can be pushed.
func (s *Server) validate(c *call, b *batch) {
	b.refused = make([]error, len(b.members))
	b.pushes = make([]queue.Push, 0, len(b.members))
	for i, member := range b.members {
		var in input
		if b.refused[i] = s.decodeMember(c, &in, member); b.refused[i] == nil {
			b.pushes = append(b.pushes, in.push)
		}
	}
}

func (s *Server) decodeMember(c *call, in *input, member []byte) error {
	if kind := jsontext.Value(member).Kind(); kind != '{' {
		return &Problem{Status: http.StatusBadRequest, Detail: "expected an object, got " + kindName(kind)}
	}
	if err := in.decode(member, batchFields); err != nil {
		return err
	}
	if in.given&fieldTopic == 0 {
		return badField("topic", "missing")
	}
	topic, err := s.topic(c, in.push.Topic, mayPush)
	if err != nil {
		return err
	}
	if err := takesPushes(topic); err != nil {
		return err
	}
	err = in.complete(topic, s.limits.MaxBody)
	if err != nil {
		s.countPush(topic.Name, resultRefused)
	}
	return err
}

// allUnavailable returns the error of a batch of which no job was stored: the whole request is answered 503, so that
// clients wait as they do after a single push. A job that is stored, but not durably, has an answer of its own.
func allUnavailable(results []queue.Result) error {
	var away *queue.UnavailableError
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
			s.countPush(p.Topic, resultOf(pushProblem(&results[i], p)))
			continue
		}
		s.countPush(p.Topic, storedResult(p, &results[i]))
	}
}

// answerBatch answers each member with its job or its error.
func (s *Server) answerBatch(c *call, b *batch, results []queue.Result) error {
	return s.answerWith(c, http.StatusOK, func(out []byte) []byte {
		next := 0
		out = appendList(append(out, '{'), "results", len(b.refused), func(out []byte, i int) []byte {
			if err := b.refused[i]; err != nil {
				return appendRefused(out, err)
			}
			p, r := &b.pushes[next], &results[next]
			next++
			if r.Err == nil {
				return appendPushed(out, r)
			}
			return appendRefused(out, s.memberError(c, p, r))
		})
		return append(out, '}')
	})
}

func appendRefused(b []byte, err error) []byte {
	return append(member.Value(append(b, '{'), "error", problemOf(err).view()), '}')
}

func (s *Server) memberError(c *call, p *queue.Push, r *queue.Result) error {
	err := pushProblem(r, p)
	if problemOf(err).Status == http.StatusInternalServerError {
		s.log.Error("push failed", "request_id", requestID(c), "topic", p.Topic, "id", p.ID, "err", r.Err)
	}
	return err
}
