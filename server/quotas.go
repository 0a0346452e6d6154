package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/wakecall/wakecall/internal/quota"
	"github.com/wakecall/wakecall/internal/registry"
)

// Meter counts pushes against the quotas of tokens.
type Meter interface {
	Admit(ctx context.Context, tokens []*registry.Token, n int) (int, *quota.ExceededError)
	Run(ctx context.Context, snapshot func() *registry.Snapshot)
}

// admit admits n pushes of the request's token within its quotas. It returns how many, their Quota, and why no more.
func (s *Server) admit(c *call, n int) (admitted int, counted string, err error) {
	snapshot := s.registry.Snapshot()
	tokens := snapshot.Limits(c.token.ID)
	if tokens == nil || n == 0 {
		return n, "", nil
	}
	counted = snapshot.CountedFor(c.token.ID)
	n, over := s.opts.Meter.Admit(c.ctx(), tokens, n)
	if over == nil {
		return n, counted, nil
	}
	return n, counted, &Problem{
		Status: http.StatusTooManyRequests, Code: codeQuotaExceeded, Detail: over.Error(), RetryAfter: over.After,
		quota: over,
	}
}

// setQuotaHeaders says which quota is used up, as draft-ietf-httpapi-ratelimit-headers-11 does.
func setQuotaHeaders(h http.Header, over *quota.ExceededError) {
	window := ""
	if over.Quota == "pushes_per_second" {
		window = ";w=1"
	}
	h.Set("RateLimit-Policy", fmt.Sprintf("%q;q=%d%s", over.Quota, over.Limit, window))
	h.Set("RateLimit", fmt.Sprintf("%q;r=0;t=%s", over.Quota, h.Get("Retry-After")))
}

// quotasField are the quotas of a token in a request.
type quotasField struct {
	PushesPerSecond field[integer] `json:"pushes_per_second"`
	WaitingJobs     field[integer] `json:"waiting_jobs"`
}

func (q *quotasField) quotas() *registry.Quotas {
	return &registry.Quotas{
		PushesPerSecond: int64(q.PushesPerSecond.value), WaitingJobs: int64(q.WaitingJobs.value),
	}
}

// setQuotas changes the quotas of a token that the request's token has made; its own it cannot change.
func (s *Server) setQuotas(c *call) error {
	return s.withBody(c, maxTokenBytes, func(body *buffer) error {
		var r struct {
			Quotas field[object[quotasField]] `json:"quotas"`
		}
		if err := decode(body.b, &r); err != nil {
			return err
		}
		if !r.Quotas.given {
			return badField("quotas", "required; an empty object sets no limit")
		}
		id, err := s.tokenID(c)
		if err != nil {
			return err
		}
		made := func(t *registry.Token) bool { return t.ID == id && t.MadeBy == c.token.ID }
		if !slices.ContainsFunc(s.registry.ListTokens(), made) {
			return notFound(codeTokenNotFound, "token %d was not made by this token", id)
		}
		if err := s.registry.SetQuotas(c.ctx(), c.actor(), id, r.Quotas.value.is.quotas()); err != nil {
			return err
		}
		return c.NoContent(http.StatusNoContent)
	})
}
