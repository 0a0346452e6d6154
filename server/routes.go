package server

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/internal/journal/search"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// Rights that routes need.
const (
	mayPush   = registry.RightPush   // push, change, run and delete single jobs
	mayRead   = registry.RightRead   // read jobs, counts and shards
	mayManage = registry.RightManage // read and change topics and alerts, re-drive and delete dead jobs in bulk

	mayConsume = registry.RightConsume // reserve jobs of pull topics and end their leases
	mayTokens  = registry.RightTokens  // list, create and revoke tokens within the token's own rights
)

// routes registers the routes that openapi.yaml describes; a test compares the two.
func (s *Server) routes() {
	e := s.echo
	e.GET("/healthz", s.alive)
	e.GET("/readyz", s.ready)
	e.GET("/openapi.yaml", s.openAPI)
	e.GET("/docs", s.docsPage)
	e.GET("/docs/:file", s.docsAsset)

	const topic, job = "/v1/topics/:topic", "/v1/topics/:topic/jobs/:id"
	e.POST("/v1/jobs", s.onAnyTopic(mayPush, s.pushBatch))
	e.GET(topic+"/jobs", s.onTopic(mayRead, s.listJobs, append(deadFilterNames, "state", "limit", "cursor")...))
	e.POST(topic+"/jobs", s.push(s.pushJSON))
	e.PUT(job, s.push(s.pushRaw, rawOptions...))
	e.GET(job, s.onJob(mayRead, s.getJob))
	e.PATCH(job, s.onJob(mayPush, s.changeJob))
	e.DELETE(job, s.onJob(mayPush, s.deleteJob))
	e.POST(job+"/run", s.onJob(mayPush, s.runJob))
	e.POST(job+"/resend", s.onJob(mayPush, s.resendJob))
	e.POST(topic+"/dead/retry", s.onTopic(mayManage, s.retryDead))
	e.DELETE(topic+"/dead", s.onTopic(mayManage, s.deleteDead))
	e.POST(topic+"/reserve", s.onTopic(mayConsume, s.reserveOf))
	e.POST("/v1/reserve", s.onAnyTopic(mayConsume, s.reserveAny))
	e.POST("/v1/leases", s.onAnyTopic(mayConsume, s.endLeases))
	for _, as := range leaseVerbs {
		e.POST("/v1/leases/:lease/"+as.name, s.onAnyTopic(mayConsume, s.endLease(as)))
	}
	e.GET(topic+"/stats", s.onTopic(mayRead, s.stats))
	e.GET(topic+"/forecast", s.onTopic(mayRead, s.forecast))

	e.GET("/v1/topics", s.onAnyTopic(mayManage, s.listTopics, "limit", "cursor", "prefix", "state", "owner"))
	e.PUT("/v1/topics", s.onAnyTopic(mayManage, s.putTopics))
	e.GET(topic, s.onTopic(mayManage, s.getTopic))
	e.PUT(topic, s.authed(s.putTopic))
	e.DELETE(topic, s.onTopic(mayManage, s.deleteTopic, "drop"))
	e.GET(search.Path, s.search)
	e.GET("/v1/shards", s.onAnyTopic(mayRead, s.shards))

	const open = "/v1/alerts/:alert"
	e.GET("/v1/alerts", s.onAnyTopic(mayManage, s.listAlerts))
	e.POST(open+"/ack", s.onAnyTopic(mayManage, s.ackAlert))
	e.POST(open+"/mute", s.onAnyTopic(mayManage, s.muteAlert))
	e.POST(open+"/unmute", s.onAnyTopic(mayManage, s.unmuteAlert))

	e.GET("/v1/tokens", s.onAnyTopic(mayTokens, s.listTokens))
	e.POST("/v1/tokens", s.onAnyTopic(mayTokens, s.createToken))
	e.DELETE("/v1/tokens/:token", s.onAnyTopic(mayTokens, s.revokeToken))
}

// Routes lists the routes as "METHOD /path/{parameter}".
func (s *Server) Routes() []string {
	var routes []string
	for _, r := range s.echo.Routes() {
		parts := strings.Split(r.Path, "/")
		for i, part := range parts {
			if name, ok := strings.CutPrefix(part, ":"); ok {
				parts[i] = "{" + name + "}"
			}
		}
		routes = append(routes, r.Method+" "+strings.Join(parts, "/"))
	}
	return routes
}

// call is an authenticated request, with the parameters of its path and query.
type call struct {
	echo.Context
	token *registry.Token
	topic *registry.Topic
	id    string // the job's
	query url.Values

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
		return nil, notFound("no topic %q: %v", clip(name), err)
	}
	return nil, notFound("no topic %q; create it with PUT /v1/topics/%s", clip(name), url.PathEscape(clip(name)))
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
