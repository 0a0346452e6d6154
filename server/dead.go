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

func (s *Server) retryDead(c *call) error { return s.dead(c, s.jobs.RedriveDead) }

func (s *Server) deleteDead(c *call) error { return s.dead(c, s.jobs.DeleteDead) }

func (s *Server) dead(c *call, do func(ctx context.Context, topic string, ids []string, limit int) (int, error)) error {
	return s.withBody(c, maxDeadBytes, func(body *buffer) error {
		ids, limit, err := decodeSelection(body.b)
		if err != nil {
			return err
		}
		if err := s.writable(); err != nil {
			return err
		}
		n, err := do(c.editing(), c.topic.Name, ids, limit)
		if err != nil {
			return err
		}
		return s.answer(c, http.StatusOK, map[string]int{"count": n})
	})
}

// decodeSelection reads which dead jobs to select: those with the given ids, or the oldest up to limit.
func decodeSelection(data []byte) (ids []string, limit int, err error) {
	var r struct {
		IDs   field[[]string] `json:"ids"`
		Limit field[integer]  `json:"limit"`
	}
	if err := decode(data, &r); err != nil {
		return nil, 0, err
	}
	if r.IDs.given == r.Limit.given {
		return nil, 0, badField("ids", "required: either ids or limit")
	}
	if r.Limit.given {
		limit, err = r.Limit.value.between("limit", 1, maxDeadLimit)
		return nil, limit, err
	}
	ids = r.IDs.value
	if len(ids) == 0 || len(ids) > maxDeadIDs {
		return nil, 0, outOfRange("ids", "must have 1 to %d ids, got %d", maxDeadIDs, len(ids))
	}
	for _, id := range ids {
		if err := checkID("ids", id); err != nil {
			return nil, 0, err
		}
	}
	return ids, 0, nil
}
