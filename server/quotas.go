package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/wakecall/wakecall/internal/quota"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// Meter counts pushes against the quotas of tokens.
type Meter interface {
	Admit(ctx context.Context, tokens []*registry.Token, n int) (int, *quota.ExceededError)
	Run(ctx context.Context, snapshot func() *registry.Snapshot)
}

// admit admits pushes of the request's token within its quotas. It returns how many, from the first on, and why no
// more.
func (s *Server) admit(c *call, pushes ...*store.Push) (int, error) {
	snapshot := s.registry.Snapshot()
	tokens := snapshot.Limits(c.token.ID)
	if tokens == nil || len(pushes) == 0 {
		return len(pushes), nil
	}
	counted := snapshot.CountedFor(c.token.ID)
	for i := range pushes {
		pushes[i].Quota = counted
	}
	n, over := s.opts.Meter.Admit(c.ctx(), tokens, len(pushes))
	if over == nil {
		return n, nil
	}
	return n, quotaProblem(over)
}

// quotaProblem says which quota is used up, also in the header fields of draft-ietf-httpapi-ratelimit-headers-11.
func quotaProblem(over *quota.ExceededError) *Problem {
	p := &Problem{
		Status: http.StatusTooManyRequests, Code: codeQuotaExceeded, Detail: over.Error(), RetryAfter: over.After,
		policy: fmt.Sprintf("%q;q=%d", over.Quota, over.Limit),
	}
	if over.Quota == "pushes_per_second" {
		p.policy += ";w=1"
	}
	seconds := max(1, int64((over.After+time.Second-1)/time.Second))
	p.limit = fmt.Sprintf("%q;r=0;t=%d", over.Quota, seconds)
	return p
}

// quotasField are the quotas of a token in a request.
type quotasField struct {
	PushesPerSecond field[integer] `json:"pushes_per_second"`
	WaitingJobs     field[integer] `json:"waiting_jobs"`
}

// UnmarshalJSON rejects unknown fields: ignoring a misspelled one would set no limit.
func (q *quotasField) UnmarshalJSON(data []byte) error {
	type fields quotasField
	return decodeObject(data, (*fields)(q))
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
			Quotas field[quotasField] `json:"quotas"`
		}
		if err := decode(body.b, &r); err != nil {
			return err
		}
		if !r.Quotas.given {
			return badField("quotas", "required; an empty object sets no limit")
		}
		id, err := strconv.ParseUint(c.Param("token"), 10, 63)
		if err != nil {
			return badField("token", "must be the id of a token, got %q", clip(c.Param("token")))
		}
		s.registry.Refresh(c.ctx())
		made := func(t *registry.Token) bool { return t.ID == id && t.MadeBy == c.token.ID }
		if !slices.ContainsFunc(s.registry.ListTokens(), made) {
			return notFound(codeTokenNotFound, "token %d was not made by this token", id)
		}
		if err := s.registry.SetQuotas(c.ctx(), c.actor(), id, r.Quotas.value.quotas()); err != nil {
			return err
		}
		return c.NoContent(http.StatusNoContent)
	})
}
