package jobs

import (
	"maps"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/callback"
	"github.com/wakecall/wakecall/internal/store"
)

// exchange is a job's request, beside the outcome of its last attempt.
type exchange struct {
	Request string // as it is sent now; empty for users who must not see it
	Last    *store.Attempt
	Answer  string
	Kept    bool   // Answer is the result that is kept of a job that was waited for, not of the attempt
	Type    string // content type of a result; empty: unknown
	Cut     bool   // only the beginning of the result was kept
}

// exchangeOf returns nil if there is nothing to show. The request is signed, so whoever sees it can call the endpoint.
func (h *Handler) exchangeOf(c echo.Context, job *store.Job) *exchange {
	var e exchange
	if page.May(c, account.RoleOperator) && !job.BodyGone {
		if sent := h.request(c, job); sent != nil {
			e.Request = requestText(sent)
		}
	}
	if n := len(job.History); n > 0 {
		e.Last = &job.History[n-1]
		e.Answer, _, _ = ShownBody([]byte(e.Last.Answer))
	}
	if job.Answer != nil {
		e.showResult(job.Answer, h.isPull(job.Topic))
	}
	if e.Request == "" && e.Last == nil && !e.Kept {
		return nil
	}
	return &e
}

// showResult replaces the beginning of the last response with the result of a worker, or of an endpoint.
func (e *exchange) showResult(a *store.Answer, worker bool) {
	body := []byte(a.Result)
	if !worker {
		e.Type, body = a.Response()
	}
	e.Kept, e.Cut = true, a.Truncated
	e.Answer, _, _ = ShownBody(body)
}

func requestText(s *callback.Sent) string {
	lines := []string{s.Method + " " + s.URL}
	for _, name := range slices.Sorted(maps.Keys(s.Header)) {
		for _, v := range s.Header[name] {
			lines = append(lines, name+": "+v)
		}
	}
	body, _, _ := ShownBody(s.Body)
	return strings.Join(append(lines, "", body), "\n")
}
