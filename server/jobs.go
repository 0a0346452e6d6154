package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
)

// envelope is how many bytes a push may have around its body.
const envelope = 16 << 10

// Rights that the routes ask for.
const (
	mayPush   = registry.RightPush   // push, change, run and delete single jobs
	mayRead   = registry.RightRead   // see jobs, counts and shards
	mayManage = registry.RightManage // see and change topics, retry and delete dead jobs in bulk
)

// pathText returns a parameter of the path. Echo has decoded it unless the path was sent with an encoding of its own.
func pathText(c echo.Context, name string) (string, error) {
	text := c.Param(name)
	if c.Request().URL.RawPath == "" {
		return text, nil
	}
	plain, err := url.PathUnescape(text)
	if err != nil {
		return "", badField(name, "%q is not percent-encoded as it should be", clip(text))
	}
	return plain, nil
}

// topicFor finds the topic of the path for a token with a right on it.
func (s *Server) topicFor(c echo.Context, token *registry.Token, right registry.Right) (*registry.Topic, error) {
	name, err := pathText(c, "topic")
	if err != nil {
		return nil, err
	}
	return s.topic(c.Request().Context(), name, token, right)
}

func (s *Server) topic(ctx context.Context, name string, token *registry.Token, right registry.Right) (*registry.Topic, error) {
	if err := allow(token, right, name); err != nil {
		return nil, err
	}
	topic := s.registry.Snapshot().Topics[name]
	if topic == nil { // another server may have registered it a moment ago
		s.registry.Refresh(ctx)
		topic = s.registry.Snapshot().Topics[name]
	}
	if topic == nil {
		return nil, notFound("there is no topic %q; PUT /v1/topics/%s makes it", clip(name), url.PathEscape(clip(name)))
	}
	return topic, nil
}

// pushTopic finds a topic that takes pushes.
func (s *Server) pushTopic(ctx context.Context, name string, token *registry.Token) (*registry.Topic, error) {
	topic, err := s.topic(ctx, name, token, mayPush)
	if err != nil {
		return nil, err
	}
	if topic.State == registry.TopicOffline {
		return nil, conflict("topic %s is offline and takes no pushes; its state must be active or paused", name)
	}
	return topic, nil
}

// jobFor finds the topic and the id of the path.
func (s *Server) jobFor(c echo.Context, token *registry.Token, right registry.Right) (topic, id string, err error) {
	t, err := s.topicFor(c, token, right)
	if err != nil {
		return "", "", err
	}
	if id, err = pathText(c, "id"); err != nil {
		return "", "", err
	}
	return t.Name, id, checkID("id", id)
}

// query reads the query, in which every parameter must be known and stand once.
func query(c echo.Context, known ...string) (url.Values, error) {
	raw := c.Request().URL.RawQuery
	if raw == "" {
		return nil, nil
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, &Problem{Status: http.StatusBadRequest, Detail: "the query cannot be read: " + clip(err.Error())}
	}
	for name, texts := range values {
		if !slices.Contains(known, name) {
			return nil, unknownParameter(name, known)
		}
		if len(texts) > 1 {
			return nil, badField(name, "stands twice in the query")
		}
	}
	return values, nil
}

func unknownParameter(name string, known []string) error {
	hint := "this route takes none"
	if len(known) > 0 {
		hint = "known are " + strings.Join(known, ", ")
	}
	return badField(clip(name), "unknown query parameter; %s", hint)
}

// writable says whether the journal takes what is about to be done.
func (s *Server) writable() error {
	if err := s.healthy(); err != nil {
		return unavailable(err, 5*time.Second, "the journal cannot be written, so nothing is accepted: %v", err)
	}
	return nil
}

// editing is the context of an edit, which goes on when its client leaves: what Redis has done the journal must have.
func editing(c echo.Context) context.Context { return context.WithoutCancel(c.Request().Context()) }

func actor(token *registry.Token) string { return "token:" + token.Name }

func (s *Server) pushOne(c echo.Context, token *registry.Token) error {
	name, err := pathText(c, "topic")
	if err != nil {
		return err
	}
	topic, err := s.pushTopic(c.Request().Context(), name, token)
	if err != nil {
		return err
	}
	buf := s.buffers.get()
	clean, err := s.pushJSON(c, topic, buf)
	if err != nil {
		s.metrics.pushed(topic.Name, resultOf(err))
	}
	s.giveBack(buf, clean)
	return err
}

// giveBack returns a request's buffer, unless the queue may still refer to it after a push that failed there.
func (s *Server) giveBack(buf *buffer, clean bool) {
	if clean {
		s.buffers.put(buf)
		return
	}
	s.buffers.release(buf)
}

func (s *Server) pushJSON(c echo.Context, topic *registry.Topic, buf *buffer) (clean bool, err error) {
	if _, err := query(c); err != nil {
		return true, err
	}
	if err := s.read(c.Request(), buf, int64(s.limits.MaxBody)+envelope); err != nil {
		return true, err
	}
	var in input
	if err := in.decode(buf.b, singleFields); err != nil {
		return true, err
	}
	if err := in.complete(topic, s.limits.MaxBody); err != nil {
		return true, err
	}
	return s.store(c, &in.push)
}

// rawOptions are the query parameters of a raw push.
var rawOptions = []string{"delay", "due_at", "priority", "ttr", "max_attempts", "on_duplicate"}

func (s *Server) pushRaw(c echo.Context, token *registry.Token) error {
	name, err := pathText(c, "topic")
	if err != nil {
		return err
	}
	topic, err := s.pushTopic(c.Request().Context(), name, token)
	if err != nil {
		return err
	}
	buf := s.buffers.get()
	clean, err := s.pushBytes(c, topic, buf)
	if err != nil {
		s.metrics.pushed(topic.Name, resultOf(err))
	}
	s.giveBack(buf, clean)
	return err
}

func (s *Server) pushBytes(c echo.Context, topic *registry.Topic, buf *buffer) (clean bool, err error) {
	var in input
	if err := in.raw(c); err != nil {
		return true, err
	}
	if err := s.read(c.Request(), buf, int64(s.limits.MaxBody)); err != nil {
		return true, err
	}
	in.push.Body = buf.b
	in.came |= fieldBody
	if err := in.complete(topic, s.limits.MaxBody); err != nil {
		return true, err
	}
	return s.store(c, &in.push)
}

// raw reads all of a raw push but its body.
func (in *input) raw(c echo.Context) (err error) {
	if in.push.ID, err = pathText(c, "id"); err != nil {
		return err
	}
	if err := checkID("id", in.push.ID); err != nil {
		return err
	}
	values, err := query(c, rawOptions...)
	if err != nil {
		return err
	}
	if err := in.query(values); err != nil {
		return err
	}
	in.push.ContentType, err = parseContentType(c.Request().Header.Get(echo.HeaderContentType))
	return err
}

// store pushes and answers. It is clean when nobody refers to the body any more.
func (s *Server) store(c echo.Context, p *queue.Push) (clean bool, err error) {
	if err := s.writable(); err != nil {
		return true, err
	}
	result := s.jobs.Push(c.Request().Context(), *p)
	if result.Err != nil {
		return false, pushProblem(&result, p)
	}
	s.metrics.pushed(p.Topic, storedResult(p, &result))
	status := http.StatusOK
	switch {
	case result.Job.State == queue.Spooled:
		status = http.StatusAccepted
	case !result.Duplicate:
		status = http.StatusCreated
		c.Response().Header()[echo.HeaderLocation] = []string{jobPath(p.Topic, result.Job.ID)}
	}
	view := viewOfPush(&result)
	return true, s.answer(c, status, &view)
}

// jobPath is the path of a job. Dots alone would be taken for a way through the path.
func jobPath(topic, id string) string {
	escaped := url.PathEscape(id)
	if id == "." || id == ".." {
		escaped = strings.ReplaceAll(id, ".", "%2E")
	}
	return "/v1/topics/" + topic + "/jobs/" + escaped
}

func storedResult(p *queue.Push, r *queue.Result) string {
	switch {
	case !r.Duplicate:
		return resultCreated
	case p.OnDuplicate == queue.Replace:
		return resultReplaced
	}
	return resultDuplicate
}

func resultOf(err error) string {
	switch p := problemOf(err); {
	case p.Status < http.StatusInternalServerError:
		return resultRefused
	case p.ID != "":
		return resultUnsafe
	case p.Status == http.StatusServiceUnavailable:
		return resultUnavailable
	}
	return resultError
}

// pushProblem says what to do about a push that the queue refused.
func pushProblem(r *queue.Result, p *queue.Push) error {
	err := r.Err
	switch {
	case errors.Is(err, queue.ErrDuplicate):
		return &Problem{Status: http.StatusConflict, Field: "id", cause: err,
			Detail: "a job " + p.ID + " lives already in topic " + p.Topic + "; push it with on_duplicate keep or replace"}
	case errors.Is(err, queue.ErrCollision):
		return &Problem{Status: http.StatusConflict, Field: "id", cause: err,
			Detail: "the id " + p.ID + " cannot be told from another one that lives in topic " + p.Topic + "; choose another"}
	case queue.Stored(err):
		problem := problemOf(err)
		problem.ID = cmp.Or(r.Job.ID, p.ID) // which the server may have made
		return problem
	case errors.Is(err, queue.ErrTooFar) && p.DueAt.IsZero():
		return outOfRange("delay", "more than 10 years")
	case errors.Is(err, queue.ErrTooFar):
		return outOfRange("due_at", "more than 10 years ahead")
	}
	return err
}

// jobProblem words the queue's errors about one job.
func jobProblem(err error, topic, id string) error {
	switch {
	case errors.Is(err, queue.ErrNotFound):
		return notFound("there is no job %s in topic %s; a job that was delivered or deleted is gone", id, topic)
	case errors.Is(err, queue.ErrRunning):
		return conflict("job %s of topic %s is running; try again when this attempt has ended", id, topic)
	case errors.Is(err, queue.ErrDead):
		return conflict("job %s of topic %s is dead; POST …/run makes it ready again", id, topic)
	case errors.Is(err, queue.ErrTooFar):
		return outOfRange("due_at", "more than 10 years ahead")
	}
	return err
}

func (s *Server) answerJob(c echo.Context, status int, job *queue.Job) error {
	view := viewOfJob(job)
	return s.answer(c, status, &view)
}

func (s *Server) getJob(c echo.Context, token *registry.Token) error {
	topic, id, err := s.jobFor(c, token, mayRead)
	if err != nil {
		return err
	}
	if _, err := query(c); err != nil {
		return err
	}
	job, err := s.jobs.Get(c.Request().Context(), topic, id)
	if err != nil {
		return jobProblem(err, topic, id)
	}
	return s.answerWhole(c, job)
}

func (s *Server) changeJob(c echo.Context, token *registry.Token) error {
	topic, id, err := s.jobFor(c, token, mayPush)
	if err != nil {
		return err
	}
	if _, err := query(c); err != nil {
		return err
	}
	buf := s.buffers.get()
	clean, err := s.change(c, token, topic, id, buf)
	s.giveBack(buf, clean)
	return err
}

func (s *Server) change(c echo.Context, token *registry.Token, topic, id string, buf *buffer) (clean bool, err error) {
	if err := s.read(c.Request(), buf, int64(s.limits.MaxBody)+envelope); err != nil {
		return true, err
	}
	var in input
	if err := in.decode(buf.b, changeFields); err != nil {
		return true, err
	}
	change, err := in.change(s.limits.MaxBody)
	if err != nil {
		return true, err
	}
	if err := s.writable(); err != nil {
		return true, err
	}
	job, err := s.jobs.Change(editing(c), topic, id, change)
	if err != nil {
		return false, jobProblem(err, topic, id)
	}
	return true, s.answerJob(c, http.StatusOK, job)
}

// change makes an edit of what came.
func (in *input) change(maxBody int) (queue.Change, error) {
	var change queue.Change
	if in.came == 0 {
		return change, &Problem{
			Status: http.StatusBadRequest, Detail: "nothing to change: give due_at or delay, priority or body",
		}
	}
	if err := in.oneTime(); err != nil {
		return change, err
	}
	p := in.push
	if in.came&fieldDueAt != 0 {
		change.DueAt = &p.DueAt
	}
	if in.came&fieldDelay != 0 {
		change.Delay = &p.Delay
	}
	if in.came&fieldPriority != 0 {
		change.Priority = &p.Priority
	}
	if in.came&fieldBody != 0 {
		change.Body = &p.Body
	}
	if len(p.Body) > maxBody {
		return change, tooLarge("body", "body: %d bytes are too large; at most %d", len(p.Body), maxBody)
	}
	return change, nil
}

func (s *Server) deleteJob(c echo.Context, token *registry.Token) error {
	topic, id, err := s.jobFor(c, token, mayPush)
	if err != nil {
		return err
	}
	if _, err := query(c); err != nil {
		return err
	}
	if err := s.writable(); err != nil {
		return err
	}
	if err := s.jobs.Delete(editing(c), topic, id); err != nil {
		return jobProblem(err, topic, id)
	}
	return c.NoContent(http.StatusNoContent)
}

func (s *Server) runJob(c echo.Context, token *registry.Token) error {
	topic, id, err := s.jobFor(c, token, mayPush)
	if err != nil {
		return err
	}
	if _, err := query(c); err != nil {
		return err
	}
	if err := s.writable(); err != nil {
		return err
	}
	job, err := s.jobs.RunNow(editing(c), topic, id)
	if err != nil {
		return jobProblem(err, topic, id)
	}
	return s.answerJob(c, http.StatusAccepted, job)
}

// Bounds of a page of a list.
const (
	defaultPage = 50
	maxPage     = 1000
)

func (s *Server) listJobs(c echo.Context, token *registry.Token) error {
	topic, err := s.topicFor(c, token, mayRead)
	if err != nil {
		return err
	}
	values, err := query(c, "state", "limit", "cursor")
	if err != nil {
		return err
	}
	state, limit, err := page(values)
	if err != nil {
		return err
	}
	jobs, next, err := s.jobs.List(c.Request().Context(), topic.Name, state, values.Get("cursor"), limit)
	if err != nil {
		return err
	}
	view := listView{Jobs: make([]jobView, len(jobs)), Next: next}
	for i := range jobs {
		view.Jobs[i] = viewOfJob(&jobs[i])
	}
	return s.answer(c, http.StatusOK, &view)
}

func page(values url.Values) (queue.State, int, error) {
	state := queue.State(values.Get("state"))
	switch state {
	case queue.Delayed, queue.Ready, queue.Running, queue.Dead:
	case "":
		return "", 0, badField("state", "is missing; it is delayed, ready, running or dead")
	default:
		return "", 0, badField("state", "%q is not delayed, ready, running or dead", clip(string(state)))
	}
	if !values.Has("limit") {
		return state, defaultPage, nil
	}
	limit, err := parseBounded("limit", values.Get("limit"), 1, maxPage)
	return state, int(limit), err
}

// listView is a page of a list.
type listView struct {
	Jobs []jobView `json:"jobs"`
	Next string    `json:"next"` // the cursor of the next page; empty: this is the last
}

// statsView counts a topic's jobs.
type statsView struct {
	Delayed       int64 `json:"delayed"`
	Ready         int64 `json:"ready"`
	Running       int64 `json:"running"`
	Dead          int64 `json:"dead"`
	OldestReadyMS int64 `json:"oldest_ready_ms"`
}

func (s *Server) stats(c echo.Context, token *registry.Token) error {
	topic, err := s.topicFor(c, token, mayRead)
	if err != nil {
		return err
	}
	if _, err := query(c); err != nil {
		return err
	}
	all, err := s.jobs.Stats(c.Request().Context(), []string{topic.Name})
	if err != nil {
		return err
	}
	st := all[topic.Name]
	return s.answer(c, http.StatusOK, statsView{
		Delayed: st.Delayed, Ready: st.Ready, Running: st.Running, Dead: st.Dead, OldestReadyMS: st.OldestReady.Milliseconds(),
	})
}
