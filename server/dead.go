package server

import (
	"context"
	"net/http"
)

// Limits of a request for dead jobs.
const (
	maxDeadIDs   = 1000
	maxDeadLimit = 100_000
	maxDeadBytes = 1 << 20
)

// selection selects dead jobs: by ids, or the oldest up to limit.
type selection struct {
	ids   []string
	limit int
}

func (s *Server) retryDead(c *call) error { return s.dead(c, s.jobs.RedriveDead) }

func (s *Server) deleteDead(c *call) error { return s.dead(c, s.jobs.DeleteDead) }

func (s *Server) dead(c *call, do func(ctx context.Context, topic string, ids []string, limit int) (int, error)) error {
	return s.withBody(c, maxDeadBytes, func(body *buffer) error {
		sel, err := decodeSelection(body.b)
		if err != nil {
			return err
		}
		if err := s.writable(); err != nil {
			return err
		}
		n, err := do(c.editing(), c.topic.Name, sel.ids, sel.limit)
		if err != nil {
			return err
		}
		return s.answer(c, http.StatusOK, map[string]int{"count": n})
	})
}

func decodeSelection(data []byte) (sel selection, err error) {
	var r struct {
		IDs   field[[]string] `json:"ids"`
		Limit field[integer]  `json:"limit"`
	}
	if err := decode(data, &r); err != nil {
		return sel, err
	}
	if r.IDs.given == r.Limit.given {
		return sel, badField("ids", "required: either ids or limit")
	}
	if r.Limit.given {
		sel.limit, err = r.Limit.value.between("limit", 1, maxDeadLimit)
		return sel, err
	}
	if n := len(r.IDs.value); n == 0 || n > maxDeadIDs {
		return sel, outOfRange("ids", "must have 1 to %d ids, got %d", maxDeadIDs, n)
	}
	for _, id := range r.IDs.value {
		if err := checkID("ids", id); err != nil {
			return sel, err
		}
	}
	sel.ids = r.IDs.value
	return sel, nil
}
