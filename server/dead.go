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
	given := 0
	err = decodeFields(data, "an object", []string{"ids", "limit"}, func(d *decoder, field string) error {
		given++
		if field == "ids" {
			return sel.readIDs(d)
		}
		return sel.readLimit(d)
	})
	if err == nil && given != 1 {
		err = badField("ids", "give either ids or limit")
	}
	return sel, err
}

func (sel *selection) readIDs(d *decoder) error {
	err := d.array("ids", func() error {
		if len(sel.ids) == maxDeadIDs {
			return outOfRange("ids", "more than %d ids", maxDeadIDs)
		}
		id, err := d.text("ids")
		if err == nil {
			err = checkID("ids", id)
		}
		sel.ids = append(sel.ids, id)
		return err
	})
	if err == nil && len(sel.ids) == 0 {
		return outOfRange("ids", "an empty list; give at least one id")
	}
	return err
}

func (sel *selection) readLimit(d *decoder) error {
	v, err := d.ReadValue()
	if err == nil {
		sel.limit, err = integerOf("limit", v, 1, maxDeadLimit)
	}
	return err
}
