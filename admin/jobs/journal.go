package jobs

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/journal/search"
	"github.com/wakecall/wakecall/internal/store"
)

// Searcher searches the journals of all hosts; *search.Searcher implements it.
type Searcher interface {
	All(ctx context.Context, q search.Query, tell func(search.Report)) search.Report
}

// unwatched is how long a search continues after its page, which polls every second, was closed.
const unwatched = 15 * time.Second

// journalSearches are the searches of journals, one per user. A new search replaces the user's previous one.
type journalSearches struct {
	mu     sync.Mutex
	byUser map[string]*journalSearch
}

type journalSearch struct {
	query  search.Query
	cancel context.CancelFunc
	watch  *time.Timer // stops it

	report  search.Report // guarded by journalSearches.mu
	stopped bool
}

// journalData is what a page shows of a search, together with the job's record.
type journalData struct {
	search.Report
	ID, Topic string
	Jobs      []timeline
	Begun     bool
	Stopped   bool
	Read      int64 // of all hosts
	Total     int64
}

// Missed returns the hosts whose journals were not searched completely.
func (d *journalData) Missed() (missed []search.Host) {
	for _, h := range d.Hosts {
		if h.Error != "" {
			missed = append(missed, h)
		}
	}
	return missed
}

// journalPart starts a search of the journals, or shows how far the user's search has come; the page polls it.
func (h *Handler) journalPart(c echo.Context) error {
	q := search.Query{ID: c.QueryParam("id"), Topic: c.QueryParam("topic")}
	if q.ID == "" || h.Search == nil {
		return echo.NewHTTPError(http.StatusBadRequest, "id: required")
	}
	s := h.searchOf(page.Actor(c), q)
	if c.QueryParam("stop") != "" && s != nil {
		s.cancel()
	}
	var job *store.Job
	if q.Topic != "" { // a job that no shard has, or whose shard does not answer, is nil
		job, _ = h.Queue.Get(c.Request().Context(), q.Topic, q.ID, store.Finished)
	}
	return h.Pages.Fragment(c, "partials/journal", h.journalOf(c, s, q, job))
}

// journalOf merges what a search found, if there is one, with a job's record, if a shard has it.
func (h *Handler) journalOf(c echo.Context, s *journalSearch, q search.Query, job *store.Job) *journalData {
	d := &journalData{ID: q.ID, Topic: q.Topic, Stopped: true}
	if s != nil {
		h.searches.mu.Lock()
		d.Report, d.Stopped, d.Begun = s.report, s.stopped, true
		h.searches.mu.Unlock()
	}
	var record []step
	if job != nil {
		id := ""
		if sent := h.request(c, job); sent != nil {
			id = sent.Header.Get("Wakecall-Id")
		}
		record = h.stepsOf(job, id)
	}
	for _, found := range d.Report.Jobs {
		t := timeline{Job: found}
		if job != nil && found.CreatedAt.UnixMilli() == job.CreatedAt.UnixMilli() {
			t.Steps, t.Ended, record = record, "", nil
		}
		t.Steps = merge(t.Steps, found.Events)
		d.Jobs = append(d.Jobs, t)
	}
	if record != nil {
		t := timeline{search.Job{Topic: job.Topic, ID: job.ID}, merge(record, nil)}
		d.Jobs = append([]timeline{t}, d.Jobs...)
	}
	for _, host := range d.Hosts {
		d.Read, d.Total = d.Read+host.Read, d.Total+host.Total
	}
	return d
}

// searchOf returns the user's search, which it starts if the last one was for something else. It returns nil while the
// admin stops.
func (h *Handler) searchOf(user string, q search.Query) *journalSearch {
	h.searches.mu.Lock()
	defer h.searches.mu.Unlock()
	s := h.searches.byUser[user]
	if s != nil && s.query.ID == q.ID && s.query.Topic == q.Topic {
		s.watch.Reset(unwatched)
		return s
	}
	if s != nil {
		s.cancel()
	}
	s = &journalSearch{query: q}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel, s.watch = cancel, time.AfterFunc(unwatched, func() { h.drop(user, s) })
	if !h.Hub.Spawn(func(closing context.Context) { h.runSearch(ctx, closing, s) }) {
		s.watch.Stop()
		cancel()
		return nil
	}
	h.searches.byUser[user] = s
	return s
}

// drop ends a search whose page was closed.
func (h *Handler) drop(user string, s *journalSearch) {
	s.cancel()
	h.searches.mu.Lock()
	defer h.searches.mu.Unlock()
	if h.searches.byUser[user] == s {
		delete(h.searches.byUser, user)
	}
}

func (h *Handler) runSearch(ctx, closing context.Context, s *journalSearch) {
	defer context.AfterFunc(closing, s.cancel)()
	tell := func(r search.Report) {
		h.searches.mu.Lock()
		s.report = r
		h.searches.mu.Unlock()
	}
	tell(h.Search.All(ctx, s.query, tell))
	h.searches.mu.Lock()
	s.stopped = ctx.Err() != nil
	h.searches.mu.Unlock()
	if closing.Err() != nil {
		s.watch.Stop()
	}
}
