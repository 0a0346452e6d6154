package server

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/pull"
	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
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
	return s.withBody(c, maxReserveBytes, func(body *buffer) error {
		ask, err := readReserve(body.b, true)
		if err != nil {
			return err
		}
		topics := make([]*registry.Topic, len(ask.Topics))
		for i, name := range ask.Topics {
			if topics[i], err = s.topic(c.ctx(), name, c.token, mayConsume); err != nil {
				return err
			}
		}
		return s.reserve(c, ask, topics)
	})
}

// reserveOf reserves jobs of the topic in the path.
func (s *Server) reserveOf(c *call) error {
	return s.withBody(c, maxReserveBytes, func(body *buffer) error {
		ask, err := readReserve(body.b, false)
		if err != nil {
			return err
		}
		ask.Topics = []string{c.topic.Name}
		return s.reserve(c, ask, []*registry.Topic{c.topic})
	})
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
	if err := checkUTF8(data); err != nil {
		return r, err
	}
	seen := map[string]bool{}
	err = decodeObject(data, "an object", func(d *decoder, token jsontext.Token) error {
		name := token.String()
		switch {
		case !slices.Contains(known, name):
			return unknownField(name, known...)
		case seen[name]:
			return badField(name, "duplicate field")
		}
		seen[name] = true
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
	v, err := d.ReadValue()
	if err != nil {
		return err
	}
	name, err := textOf("topics", v)
	switch {
	case err != nil:
		return err
	case len(r.Topics) == maxReserveTopics:
		return outOfRange("topics", "more than %d topics", maxReserveTopics)
	case slices.Contains(r.Topics, name):
		return badField("topics", "%s is there twice", clip(name))
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
		r.Order, err = orderOf(name, v)
	}
	return err
}

func orderOf(field string, v jsontext.Value) (queue.Order, error) {
	text, err := textOf(field, v)
	switch {
	case err != nil:
		return 0, err
	case text == "fair":
		return queue.Fair, nil
	case text == "listed":
		return queue.Listed, nil
	}
	return 0, badField(field, "%q is not fair or listed", clip(text))
}

// reserve takes jobs and answers with them. A client that leaves before it has the answer takes none along.
func (s *Server) reserve(c *call, ask pull.Request, topics []*registry.Topic) error {
	most := map[string]int{}
	for _, t := range topics {
		if t.Delivery != registry.DeliveryPull || registry.IsNamespace(t.Name) {
			return conflict("topic %s is not a pull topic; its jobs are delivered to its callback_url", t.Name)
		}
		most[t.Name] = t.MaxAttempts
	}
	conn := http.NewResponseController(c.Response().Writer)
	if ask.Wait > 0 {
		// net/http goes on reading to notice a client that leaves; the deadline of the request would end the wait.
		_ = conn.SetReadDeadline(time.Time{})
		_ = conn.SetWriteDeadline(time.Now().Add(ask.Wait + s.limits.WriteTimeout))
	}
	ctx, cancel := context.WithCancel(c.ctx())
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)() // a server that stops lets nobody wait
	ask.Alive = func() bool { return ctx.Err() == nil }
	jobs, err := s.opts.Workers.Take(ctx, ask)
	if err != nil && s.stopping.Err() != nil && c.ctx().Err() == nil {
		err = nil
	}
	if err != nil {
		return err
	}
	s.metrics.taken(jobs, s.label)
	err = s.answerReserved(c, jobs, most)
	if err == nil {
		err = conn.Flush()
	}
	if errors.Is(err, http.ErrNotSupported) {
		err = nil
	}
	if err = errors.Join(err, c.ctx().Err()); err != nil {
		s.untake(c, jobs)
	}
	return nil
}

// label is the name under which a topic has metrics: that of its namespace if it has one, since a client can make up
// any number of topics there.
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
			s.log.Warn("a job that did not reach its worker comes back when its lease expires",
				"topic", d.Topic, "id", d.ID, "err", d.Err)
		}
	}
}

// leasedView is a job for a worker, without its body.
type leasedView struct {
	Lease       string            `json:"lease"`
	LeasedUntil instant           `json:"leased_until"`
	Topic       string            `json:"topic"`
	ID          string            `json:"id"`
	Priority    string            `json:"priority"`
	Attempt     int               `json:"attempt"`
	MaxAttempts int               `json:"max_attempts"`
	DueAt       instant           `json:"due_at"`
	CreatedAt   instant           `json:"created_at"`
	ExpiresAt   instant           `json:"expires_at,omitzero"`
	ContentType string            `json:"content_type"`
	Headers     map[string]string `json:"headers"`
}

// answerReserved shows a JSON body byte for byte, other text as a string, and any other body in base64. most are the
// attempts of jobs that have no number of their own.
func (s *Server) answerReserved(c *call, jobs []queue.Leased, most map[string]int) error {
	out := s.buffers.get()
	defer s.buffers.put(out)
	out.b = append(out.b, `{"jobs":[`...)
	for i := range jobs {
		j := &jobs[i]
		v := leasedView{
			Lease: j.Lease, LeasedUntil: instant(j.LeaseUntil), Topic: j.Topic, ID: j.ID, Priority: j.Priority.String(),
			Attempt: j.Attempt, MaxAttempts: j.MaxAttempts, DueAt: instant(j.DueAt), CreatedAt: instant(j.CreatedAt),
			ExpiresAt: instant(j.ExpiresAt), ContentType: shownType(j.ContentType), Headers: j.Headers,
		}
		if v.MaxAttempts == 0 {
			v.MaxAttempts = most[j.Topic]
		}
		if i > 0 {
			out.b = append(out.b, ',')
		}
		if err := json.MarshalWrite(out, &v, answering); err != nil {
			return err
		}
		var err error
		if out.b, err = appendBody(out.b[:len(out.b)-len("}")], &j.Job); err != nil {
			return err
		}
		out.b = append(out.b, '}')
	}
	out.b = append(out.b, "]}"...)
	c.Response().Header().Set(echo.HeaderContentLength, strconv.Itoa(len(out.b))) // it is flushed
	return write(c, http.StatusOK, jsonType, out.b)
}

// appendBody appends the member body, or body_base64.
func appendBody(b []byte, j *queue.Job) ([]byte, error) {
	if isJSON(j.ContentType) && isBody(j.Body) {
		return append(append(b, `,"body":`...), j.Body...), nil
	}
	name, value := `,"body":`, any(string(j.Body))
	if !utf8.Valid(j.Body) {
		name, value = `,"body_base64":`, j.Body
	}
	text, err := json.Marshal(value)
	return append(append(b, name...), text...), err
}
