package server

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/internal/journal/member"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/queue/pull"
	"github.com/wakecall/wakecall/internal/registry"
)

// Workers gives the jobs of pull topics to workers.
type Workers interface {
	Take(ctx context.Context, r pull.Request) ([]queue.Leased, error)
	End(ctx context.Context, list []queue.Ending) []queue.Ended
}

// Limits of a reserve.
const (
	maxReserveTopics = 100
	maxWait          = 10 * time.Minute
	maxReserveBytes  = 64 << 10
)

// reserveAny reserves jobs of the topics that the request names.
func (s *Server) reserveAny(c *call) error {
	ask, err := s.readReserve(c, true)
	if err != nil {
		return err
	}
	topics := make([]*registry.Topic, len(ask.Topics))
	for i, name := range ask.Topics {
		if topics[i], err = s.topic(c, name, mayConsume); err != nil {
			return err
		}
	}
	return s.reserve(c, ask, topics)
}

// reserveOf reserves jobs of the topic in the path.
func (s *Server) reserveOf(c *call) error {
	ask, err := s.readReserve(c, false)
	if err != nil {
		return err
	}
	ask.Topics = []string{c.topic.Name}
	return s.reserve(c, ask, []*registry.Topic{c.topic})
}

// readReserve reads the request. It returns the body's buffer before the worker waits.
func (s *Server) readReserve(c *call, several bool) (r pull.Request, err error) {
	err = s.withBody(c, maxReserveBytes, func(body *buffer) (err error) {
		r, err = readReserve(body.b, several)
		return err
	})
	return r, err
}

func readReserve(data []byte, several bool) (r pull.Request, err error) {
	r.Max = 1
	known := []string{"max", "wait", "ttr", "order"}
	if several {
		known = append(known, "topics")
	}
	if len(data) == 0 && !several {
		return r, nil
	}
	err = decodeFields(data, "an object", known, func(d *decoder, name string) error {
		if name == "topics" {
			return d.array(name, func() error { return addTopic(d, &r) })
		}
		v, err := d.ReadValue()
		if err != nil {
			return err
		}
		return setReserve(&r, name, v)
	})
	if err == nil && several && len(r.Topics) == 0 {
		err = badField("topics", `missing; name one to %d pull topics`, maxReserveTopics)
	}
	return r, err
}

func addTopic(d *decoder, r *pull.Request) error {
	name, err := d.text("topics")
	switch {
	case err != nil:
		return err
	case len(r.Topics) == maxReserveTopics:
		return outOfRange("topics", "more than %d topics", maxReserveTopics)
	case slices.Contains(r.Topics, name):
		return badField("topics", "%s is a duplicate", clip(name))
	}
	r.Topics = append(r.Topics, name)
	return nil
}

func setReserve(r *pull.Request, name string, v jsontext.Value) (err error) {
	switch name {
	case "max":
		r.Max, err = integerOf(name, v, 1, queue.TakeLimit)
	case "wait":
		r.Wait, err = durationOf(name, v)
		if err == nil && (r.Wait < 0 || r.Wait > maxWait) {
			err = outOfRange(name, "%s is not between 0s and %s", r.Wait, maxWait)
		}
	case "ttr":
		r.TTR, err = ttrOf(name, v, registry.MaxPullTTR)
	case "order":
		r.Order, err = oneOf(name, v, orders, "fair or listed")
	}
	return err
}

// reserve takes jobs and answers with them. A client that leaves before it has the answer gets none.
func (s *Server) reserve(c *call, ask pull.Request, topics []*registry.Topic) error {
	for _, t := range topics {
		if t.Delivery != registry.DeliveryPull || registry.IsNamespace(t.Name) {
			return conflict("topic %s is not a pull topic; its jobs are delivered to its callback_url", t.Name)
		}
	}
	conn := http.NewResponseController(c.Response().Writer)
	if ask.Wait > 0 {
		_ = conn.SetWriteDeadline(time.Now().Add(ask.Wait + s.limits.WriteTimeout))
	}
	ctx := c.ctx()
	ask.Alive = func() bool { return ctx.Err() == nil }
	ask.Stopping = s.stopping.Done() // a stopping server lets no worker wait
	jobs, err := s.opts.Workers.Take(ctx, ask)
	if err != nil {
		return err
	}
	s.metrics.taken(jobs, s.label)
	// Checked before the answer: a client that closes its connection afterwards has the jobs.
	if err = ctx.Err(); err == nil {
		err = s.answerReserved(c, jobs, topics)
	}
	if err == nil {
		err = conn.Flush()
	}
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		s.untake(c, jobs)
	}
	return nil
}

// label returns the name under which a topic has metrics: its namespace's if it has one, since clients can create any
// number of topics there.
func (s *Server) label(topic string) string {
	if ns := s.registry.Snapshot().Namespace(topic); ns != nil {
		return ns.Name
	}
	return topic
}

// untake releases jobs that did not reach their worker.
func (s *Server) untake(c *call, jobs []queue.Leased) {
	for _, d := range s.opts.Workers.End(context.WithoutCancel(c.ctx()), queue.Untaken(jobs)) {
		if d.Err != nil && !errors.Is(d.Err, queue.ErrLease) {
			s.log.Warn("a job that did not reach its worker is ready again when its lease expires",
				"topic", d.Topic, "id", d.ID, "err", d.Err)
		}
	}
}

// answerReserved answers with jobs and their leases.
func (s *Server) answerReserved(c *call, jobs []queue.Leased, topics []*registry.Topic) error {
	out := s.buffers.get()
	defer s.buffers.put(out)
	out.b = append(appendList(append(out.b, '{'), "jobs", len(jobs), func(b []byte, i int) []byte {
		return appendLeased(b, &jobs[i], attemptsOf(&jobs[i], topics))
	}), '}')
	c.Response().Header().Set(echo.HeaderContentLength, strconv.Itoa(len(out.b))) // needed because the answer is flushed
	return write(c, http.StatusOK, jsonType, out.b)
}

// attemptsOf returns how many attempts a job may have: its own limit, or else its topic's.
func attemptsOf(j *queue.Leased, topics []*registry.Topic) int {
	if j.MaxAttempts != 0 {
		return j.MaxAttempts
	}
	for _, t := range topics {
		if t.Name == j.Topic {
			return t.MaxAttempts
		}
	}
	return 0
}

// appendLeased appends a job for a worker.
func appendLeased(b []byte, j *queue.Leased, maxAttempts int) []byte {
	b = append(b, '{')
	b = member.Text(b, "lease", j.Lease)
	b = member.Instant(b, "leased_until", j.LeaseUntil)
	b = member.Text(b, "ttr", j.For.String())
	b = member.Text(b, "topic", j.Topic)
	b = member.Text(b, "id", j.ID)
	b = member.Text(b, "priority", j.Priority.String())
	b = member.Int(b, "attempt", j.Attempt)
	b = member.Int(b, "max_attempts", maxAttempts)
	b = member.Instant(b, "due_at", j.DueAt)
	b = member.Instant(b, "created_at", j.CreatedAt)
	if !j.ExpiresAt.IsZero() {
		b = member.Instant(b, "expires_at", j.ExpiresAt)
	}
	b = member.Text(b, "content_type", shownType(j.ContentType))
	b = appendHeaders(b, j.Headers)
	return append(appendBody(b, &j.Job), '}')
}

// appendHeaders appends an object, even when there are no headers.
func appendHeaders(b []byte, headers map[string]string) []byte {
	if len(headers) == 0 {
		return member.Raw(b, "headers", []byte("{}"))
	}
	return member.Value(b, "headers", headers)
}
