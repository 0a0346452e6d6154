package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/internal/journal/search"
	"github.com/wakecall/wakecall/internal/store"
)

// Searcher searches the journals of all hosts; *search.Searcher implements it.
type Searcher interface {
	All(ctx context.Context, q search.Query, tell func(search.Report)) search.Report
	Signed(r *http.Request, now time.Time) bool
	Serve(ctx context.Context, r *http.Request, w io.Writer, flush func()) error
}

var linesType = []string{"application/x-ndjson"}

// searchRetry is how long a client should wait before it searches again while one of its searches is under way.
const searchRetry = 5 * time.Second

// search answers clients with what all hosts know, and other hosts with what this host's journal has.
func (s *Server) search(c echo.Context) error {
	if search.ByHost(c.Request()) {
		return s.searchForHost(c)
	}
	return s.onAnyTopic(mayRead, s.searchAll, "id", "topic")(c)
}

func (s *Server) searchForHost(c echo.Context) error {
	if s.opts.Search == nil || !s.opts.Search.Signed(c.Request(), s.opts.Now()) {
		return &Problem{Status: http.StatusUnauthorized, Detail: "host request not signed with this host's key: give " +
			"all hosts the same registry.seal_key, and the right time"}
	}
	ctx, cancel := s.untilStop(c)
	defer cancel()
	begin(c)
	err := s.opts.Search.Serve(ctx, c.Request(), c.Response(), s.flusher(c))
	if c.Response().Committed {
		return nil
	}
	switch {
	case errors.Is(err, search.ErrOther):
		return conflict(codeWrongHost, "%v", err)
	case errors.Is(err, search.ErrBusy):
		return &Problem{Status: http.StatusTooManyRequests, Detail: err.Error(), RetryAfter: searchRetry}
	}
	return err
}

// untilStop returns the context of a long answer, which also ends when the server stops.
func (s *Server) untilStop(c echo.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(c.Request().Context())
	stop := context.AfterFunc(s.stopping, cancel)
	return ctx, func() { stop(); cancel() }
}

// begin sets the type of an answer of many lines, which is sent with the first one.
func begin(c echo.Context) { c.Response().Header()[echo.HeaderContentType] = linesType }

// flusher returns a function that sends what was written, and allows time for what follows.
func (s *Server) flusher(c echo.Context) func() {
	conn := http.NewResponseController(c.Response().Writer)
	return func() {
		_ = conn.SetWriteDeadline(time.Now().Add(s.limits.WriteTimeout))
		_ = conn.Flush() // a client that is gone cancels the request
	}
}

// searchView is one line of the answer: what is known so far.
type searchView struct {
	Stored []storedView `json:"stored"`
	search.Report
}

// storedView is a job that a shard has.
type storedView struct {
	Topic string      `json:"topic"`
	ID    string      `json:"id"`
	State store.State `json:"state"`
}

func (s *Server) searchAll(c *call) error {
	q := search.Query{ID: c.query.Get("id"), Topic: c.query.Get("topic"), Within: c.token.Topics}
	if err := checkID("id", q.ID); err != nil {
		return err
	}
	if q.Topic != "" {
		if err := allow(c.token, mayRead, q.Topic); err != nil {
			return err
		}
	}
	if s.opts.Search == nil {
		return notFound(codeNotFound, "this server has no journal to search")
	}
	tenant := s.registry.Snapshot().Tenant(c.token)
	if _, running := s.searches.LoadOrStore(tenant, true); running {
		return &Problem{Status: http.StatusTooManyRequests, RetryAfter: searchRetry,
			Detail: "a search with token " + clip(c.token.Name) + " is under way; wait for its end, or disconnect it"}
	}
	var searched sync.Once // before the last line is sent, after which the client may begin another
	end := func() { searched.Do(func() { s.searches.Delete(tenant) }) }
	defer end()
	ctx, cancel := s.untilStop(c)
	defer cancel()
	stored := s.stored(ctx, c, q)
	begin(c)
	out, flush := json.NewEncoder(c.Response()), s.flusher(c)
	tell := func(r search.Report) {
		r.Jobs = slices.DeleteFunc(r.Jobs, func(j search.Job) bool { return !c.token.Allows(mayRead, j.Topic) })
		if !r.Done {
			withoutBodies(r.Jobs)
		}
		_ = out.Encode(searchView{stored, r}) // a client that is gone cancels the request
		flush()
	}
	report := s.opts.Search.All(ctx, q, tell)
	end()
	tell(report)
	return nil
}

// withoutBodies shortens the lines that only report progress.
func withoutBodies(jobs []search.Job) {
	for _, j := range jobs {
		for i := range j.Events {
			j.Events[i].Body = nil
		}
	}
}

// stored finds the jobs with the id in the shards that answer.
func (s *Server) stored(ctx context.Context, c *call, q search.Query) []storedView {
	topics := slices.DeleteFunc(slices.Clone(s.registry.Snapshot().Topics.Names()), func(name string) bool {
		return !c.token.Allows(mayRead, name) || q.Topic != "" && name != q.Topic
	})
	refs := make([]store.Ref, len(topics))
	for i, topic := range topics {
		refs[i] = store.Ref{Topic: topic, ID: q.ID}
	}
	views := []storedView{}
	jobs, _ := s.jobs.Find(ctx, refs) // a shard that is down is in the list of shards
	for _, j := range jobs {
		if j != nil {
			views = append(views, storedView{j.Topic, j.ID, j.State})
		}
	}
	return views
}
