package server

import (
	"context"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits of a request on dead jobs.
const (
	maxDeadIDs   = 1000
	maxDeadLimit = 100_000
	maxDeadBytes = 1 << 20
)

// selection is dead jobs: those of ids, or the oldest up to limit.
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

func decodeSelection(data []byte) (selection, error) {
	var sel selection
	if err := checkUTF8(data); err != nil {
		return sel, err
	}
	given := map[string]bool{}
	err := decodeObject(data, "an object", func(d *decoder, token jsontext.Token) error {
		name := token.String()
		if given[name] {
			return badField(name, "duplicate field")
		}
		given[name] = true
		switch name {
		case "ids":
			return sel.readIDs(d)
		case "limit":
			return sel.readLimit(d)
		}
		return unknownField(name, "ids", "limit")
	})
	if err == nil && len(given) != 1 {
		err = badField("ids", "give either ids or limit")
	}
	return sel, err
}

func (sel *selection) readIDs(d *decoder) error {
	err := d.array("ids", func() error {
		if len(sel.ids) == maxDeadIDs {
			return outOfRange("ids", "more than %d ids", maxDeadIDs)
		}
		v, err := d.ReadValue()
		if err != nil {
			return err
		}
		id, err := idOf("ids", v)
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
