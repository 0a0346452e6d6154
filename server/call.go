package server

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/internal/bulk"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// call is an authenticated request, with the parameters of its path and query.
type call struct {
	echo.Context
	token *registry.Token
	topic *registry.Topic
	id    string // the job's
	group string

	waiting *pushWaiting // of a push that waits for the job's end

	schedule *registry.Schedule
	task     *bulk.Task
	query    url.Values

	refreshed bool // the registry was refreshed for this request; once is enough for all topics of a batch
}

type handler func(c *call) error

func (c *call) ctx() context.Context { return c.Request().Context() }

// editing returns the context of an edit. It is not canceled when the client disconnects, because the journal must
// record what Redis did, and who wanted it.
func (c *call) editing() context.Context { return store.By(context.WithoutCancel(c.ctx()), c.actor()) }

func (c *call) actor() string { return "token:" + c.token.Name }

// authed returns a route that needs a token.
func (s *Server) authed(h handler) echo.HandlerFunc {
	return func(c echo.Context) error {
		token, err := s.authenticate(c.Request())
		if err != nil {
			return err
		}
		return h(&call{Context: c, token: token})
	}
}

// onAnyTopic returns a route that needs a right on any topic. params are the parameters of its query.
func (s *Server) onAnyTopic(right registry.Right, h handler, params ...string) echo.HandlerFunc {
	return s.authed(func(c *call) error {
		if err := allowSomewhere(c.token, right); err != nil {
			return err
		}
		if err := c.readQuery(params...); err != nil {
			return err
		}
		return h(c)
	})
}

// onTopic returns a route that needs a right on its topic, which must exist. params are the parameters of its query.
func (s *Server) onTopic(right registry.Right, h handler, params ...string) echo.HandlerFunc {
	return s.authed(func(c *call) error {
		if err := s.readTopicName(c, right); err != nil {
			return err
		}
		if err := c.readQuery(params...); err != nil {
			return err
		}
		return h(c)
	})
}

// onJob is onTopic with a job's id in the path.
func (s *Server) onJob(right registry.Right, h handler) echo.HandlerFunc {
	return s.onTopic(right, func(c *call) error {
		if err := c.readID(); err != nil {
			return err
		}
		return h(c)
	})
}

// pathText returns a parameter of the path, which Echo decodes only if the path has no unusual encoding.
func pathText(c echo.Context, name string) (string, error) {
	text := c.Param(name)
	if c.Request().URL.RawPath == "" {
		return text, nil
	}
	plain, err := url.PathUnescape(text)
	if err != nil {
		return "", badField(name, "invalid percent-encoding %q", clip(text))
	}
	return plain, nil
}

func (s *Server) readTopicName(c *call, right registry.Right) error {
	name, err := pathText(c, "topic")
	if err != nil {
		return err
	}
	c.topic, err = s.topic(c, name, right)
	return err
}

func (c *call) readID() (err error) {
	if c.id, err = pathText(c, "id"); err != nil {
		return err
	}
	return checkID("id", c.id)
}

// topic finds a topic on which the token has a right.
func (s *Server) topic(c *call, name string, right registry.Right) (*registry.Topic, error) {
	if err := allow(c.token, right, name); err != nil {
		return nil, err
	}
	topic := s.registry.Snapshot().Topic(name)
	if topic == nil && !c.refreshed { // another server may just have registered it
		c.refreshed = true
		s.registry.Refresh(c.ctx())
		topic = s.registry.Snapshot().Topic(name)
	}
	if topic != nil {
		return topic, nil
	}
	if err := registry.ValidTopicName(name); err != nil {
		return nil, notFound(codeTopicNotFound, "no topic %q: %v", clip(name), err)
	}
	return nil, notFound(codeTopicNotFound, "no topic %q; create it with PUT /v1/topics/%s", clip(name),
		url.PathEscape(clip(name)))
}

// readQuery reads the query, which may have each known parameter once and no others.
func (c *call) readQuery(known ...string) error {
	raw := c.Request().URL.RawQuery
	if raw == "" {
		return nil
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return &Problem{Status: http.StatusBadRequest, Detail: "malformed query: " + clip(err.Error())}
	}
	for name, texts := range values {
		if _, header := memberOf("headers", name); header {
			name = "headers[NAME]"
		}
		if !slices.Contains(known, name) {
			return unknownParameter(name, known)
		}
		if len(texts) > 1 {
			return badField(name, "duplicate query parameter")
		}
	}
	c.query = values
	return nil
}

func unknownParameter(name string, known []string) error {
	hint := "this route has none"
	if len(known) > 0 {
		hint = "must be one of " + strings.Join(known, ", ")
	}
	return badField(clip(name), "unknown query parameter; %s", hint)
}
