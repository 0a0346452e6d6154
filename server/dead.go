package server

import (
	"context"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/registry"
)

// Bounds of one request on dead jobs.
const (
	maxDeadIDs   = 1000
	maxDeadLimit = 100_000
	maxDeadBytes = 1 << 20
)

// selection says which dead jobs are meant: those of ids, or the oldest up to limit.
type selection struct {
	ids   []string
	limit int
}

func (s *Server) retryDead(c echo.Context, token *registry.Token) error {
	return s.dead(c, token, OpRetryDead, s.jobs.RedriveDead)
}

func (s *Server) deleteDead(c echo.Context, token *registry.Token) error {
	return s.dead(c, token, OpDeleteDead, s.jobs.DeleteDead)
}

func (s *Server) dead(
	c echo.Context, token *registry.Token, op string,
	do func(ctx context.Context, topic string, ids []string, limit int) (int, error),
) error {
	topic, err := s.topicFor(c, token, mayManage)
	if err != nil {
		return err
	}
	if _, err := query(c); err != nil {
		return err
	}
	sel, err := s.readSelection(c)
	if err != nil {
		return err
	}
	if err := s.writable(); err != nil {
		return err
	}
	n, err := do(c.Request().Context(), topic.Name, sel.ids, sel.limit)
	// What was done before an error has to be known to the journal, too.
	if n > 0 {
		r := Record{Op: op, Topic: topic.Name, IDs: sel.ids, Limit: sel.limit, Count: n}
		if err := s.journal(c, token, r); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	out := s.buffers.get()
	defer s.buffers.put(out)
	out.b = append(strconv.AppendInt(append(out.b, `{"count":`...), int64(n), 10), '}')
	return answer(c, http.StatusOK, jsonType, out.b)
}

func (s *Server) readSelection(c echo.Context) (selection, error) {
	buf := s.buffers.get()
	defer s.buffers.put(buf)
	if err := s.read(c.Request(), buf, maxDeadBytes); err != nil {
		return selection{}, err
	}
	return decodeSelection(buf.b)
}

func decodeSelection(data []byte) (selection, error) {
	s := scanner{data: data, depth: maxDepth, text: true}
	var sel selection
	var ids, limit bool
	err := s.object("the request", func(key []byte) error {
		switch {
		case string(key) == "ids" && !ids:
			ids = true
			return sel.readIDs(&s)
		case string(key) == "limit" && !limit:
			limit = true
			return sel.readLimit(&s)
		case string(key) == "ids", string(key) == "limit":
			return badField(string(key), "stands twice")
		}
		return unknownField(string(key))
	})
	if err != nil {
		return sel, err
	}
	if ids == limit {
		return sel, badField("ids", "give either ids or limit")
	}
	return sel, s.end()
}

func (sel *selection) readIDs(s *scanner) error {
	err := s.array("ids", func() error {
		if len(sel.ids) == maxDeadIDs {
			return outOfRange("ids", "more than %d ids", maxDeadIDs)
		}
		id, err := s.string("ids")
		if err != nil {
			return err
		}
		sel.ids = append(sel.ids, id)
		return checkID("ids", id)
	})
	if err == nil && len(sel.ids) == 0 {
		return outOfRange("ids", "an empty list; give at least one id")
	}
	return err
}

func (sel *selection) readLimit(s *scanner) error {
	text, err := s.numeral("limit")
	if err != nil {
		return err
	}
	n, err := parseBounded("limit", text, 1, maxDeadLimit)
	sel.limit = int(n)
	return err
}
