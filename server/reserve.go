package server

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/wakecall/wakecall/internal/queue/pull"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// Workers hands jobs of pull topics to workers.
type Workers interface {
	Take(ctx context.Context, r pull.Request) ([]store.Job, error)
	End(ctx context.Context, list []store.End) []store.Ended
}

// Limits of a reserve.
const (
	maxWait         = 10 * time.Minute
	maxReserveBytes = 256 << 10
)

// reserveAny reserves jobs of the topics in the request.
func (s *Server) reserveAny(c *call) error {
	ask, err := s.readReserve(c, s.decodeReserveAny)
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
	ask, err := s.readReserve(c, decodeReserve)
	if err != nil {
		return err
	}
	ask.Topics = []string{c.topic.Name}
	return s.reserve(c, ask, []*registry.Topic{c.topic})
}

// readReserve reads the request. The body's buffer is returned before the worker waits.
func (s *Server) readReserve(c *call, decode func([]byte) (pull.Request, error)) (ask pull.Request, err error) {
	err = s.withBody(c, maxReserveBytes, func(body *buffer) (err error) {
		ask, err = decode(body.b)
		return err
	})
	return ask, err
}

// reserveRequest is a reserve from the topic in the path.
type reserveRequest struct {
	Max   field[integer]  `json:"max"`
	Wait  field[pullWait] `json:"wait"`
	TTR   field[ttr]      `json:"ttr"`
	Order field[order]    `json:"order"`
}

// reserveAnyRequest is a reserve from several topics.
type reserveAnyRequest struct {
	Topics field[[]string] `json:"topics"`
	reserveRequest
}

func decodeReserve(data []byte) (ask pull.Request, err error) {
	var r reserveRequest
	if len(data) > 0 {
		err = decode(data, &r)
	}
	if err != nil {
		return ask, err
	}
	return r.request()
}

func (s *Server) decodeReserveAny(data []byte) (ask pull.Request, err error) {
	var r reserveAnyRequest
	if err := decode(data, &r); err != nil {
		return ask, err
	}
	topics := r.Topics.value
	if len(topics) == 0 {
		return ask, badField("topics", "required: 1 to %d pull topics", s.limits.MaxTopics)
	}
	if err := pull.CheckRequest(len(topics), s.limits.MaxTopics); err != nil {
		return ask, outOfRange("topics", "%s", err)
	}
	for i, name := range topics {
		if slices.Contains(topics[:i], name) {
			return ask, badField("topics", "duplicate topic %s", clip(name))
		}
	}
	ask, err = r.request()
	ask.Topics = topics
	return ask, err
}

func (r *reserveRequest) request() (ask pull.Request, err error) {
	ask.Wait, ask.TTR, ask.Order = time.Duration(r.Wait.value), time.Duration(r.TTR.value), store.Order(r.Order.value)
	ask.Max = 1
	if r.Max.given {
		ask.Max, err = r.Max.value.between("max", 1, store.TakeLimit)
	}
	return ask, err
}

// reserve takes jobs and answers with them. It releases them if the client disconnects before the answer is sent.
func (s *Server) reserve(c *call, ask pull.Request, topics []*registry.Topic) error {
	for _, t := range topics {
		if t.Delivery != registry.DeliveryPull || registry.IsNamespace(t.Name) {
			return conflict(codeTopicNotPull, "topic %s is not a pull topic: its jobs are delivered to its "+
				"callback_url", t.Name)
		}
	}
	conn := http.NewResponseController(c.Response().Writer)
	if ask.Wait > 0 {
		_ = conn.SetWriteDeadline(time.Now().Add(ask.Wait + s.limits.WriteTimeout))
	}
	ctx := c.ctx()
	ask.Alive = func() bool { return ctx.Err() == nil }
	ask.Token = strconv.FormatUint(s.registry.Snapshot().Tenant(c.token), 10)
	ask.Stopping = s.stopping.Done() // workers do not wait while the server stops
	jobs, err := s.opts.Workers.Take(ctx, ask)
	if err != nil {
		return err
	}
	s.metrics.taken(jobs, s.label)
	// Checked before the answer is sent: a client that disconnects later has received the jobs.
	if err = ctx.Err(); err == nil {
		err = s.answerReserved(c, jobs, topics)
	}
	if err == nil {
		err = conn.Flush()
	}
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		s.release(c, jobs)
	}
	return nil
}

// release releases jobs that did not reach their worker.
func (s *Server) release(c *call, jobs []store.Job) {
	for _, d := range s.opts.Workers.End(context.WithoutCancel(c.ctx()), store.Released(jobs)) {
		if d.Err != nil && !errors.Is(d.Err, store.ErrLease) {
			s.log.Warn("release failed; the job did not reach its worker and is ready again when its lease expires",
				"topic", d.Topic, "id", d.ID, "error", d.Err)
		}
	}
}

// answerReserved answers with the jobs and their leases.
func (s *Server) answerReserved(c *call, jobs []store.Job, topics []*registry.Topic) error {
	out := s.buffers.get()
	defer s.buffers.put(out)
	out.b = append(out.b, `{"jobs":[`...)
	for i := range jobs {
		if i > 0 {
			out.b = append(out.b, ',')
		}
		if err := json.MarshalWrite(out, viewOfLeased(&jobs[i], topics), answering); err != nil {
			return err
		}
		out.appendBody(&jobs[i])
	}
	out.b = append(out.b, "]}"...)
	return write(c, http.StatusOK, jsonType, out.b)
}

// attemptsOf returns how many attempts a job may have: its own limit, or else its topic's.
func attemptsOf(j *store.Job, topics []*registry.Topic) int {
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

// leasedView is the JSON of a job for a worker; its body is appended.
type leasedView struct {
	Lease       string            `json:"lease"`
	LeasedUntil time.Time         `json:"leased_until"`
	TTR         registry.Duration `json:"ttr"`
	Topic       string            `json:"topic"`
	ID          string            `json:"id"`
	Priority    string            `json:"priority"`
	Attempt     int               `json:"attempt"`
	MaxAttempts int               `json:"max_attempts"`
	DueAt       time.Time         `json:"due_at"`
	CreatedAt   time.Time         `json:"created_at"`
	ExpiresAt   time.Time         `json:"expires_at,omitzero"`
	Traceparent string            `json:"traceparent,omitzero"`
	ContentType string            `json:"content_type"`
	Headers     map[string]string `json:"headers"`
}

func viewOfLeased(j *store.Job, topics []*registry.Topic) *leasedView {
	return &leasedView{
		Lease: j.Lease.String(), LeasedUntil: j.LeaseUntil,
		TTR: registry.Duration(j.LeaseUntil.Sub(j.Lease.Taken)), Topic: j.Topic, ID: j.ID,
		Priority: j.Priority.String(), Attempt: j.Lease.Attempt, MaxAttempts: attemptsOf(j, topics),
		DueAt: j.DueAt, CreatedAt: j.CreatedAt, ExpiresAt: j.ExpiresAt,
		Traceparent: j.Traceparent, ContentType: shownType(j.ContentType), Headers: j.CallHeaders(),
	}
}
