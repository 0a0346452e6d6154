package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/account"
	"github.com/wakecall/wakecall/callback"
	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
)

// TopicCaller makes callbacks as a dispatcher does; *callback.Caller is one.
type TopicCaller interface {
	Do(ctx context.Context, e *callback.Endpoint, r *callback.Request) callback.Outcome
	Probe(ctx context.Context, e *callback.Endpoint, r *callback.Request) *callback.Report
	Describe(e *callback.Endpoint, r *callback.Request) (*callback.Sent, error)
}

type testData struct {
	Topic  *registry.Topic
	Body   string
	Errors map[string]string
	Sent   *callback.Sent
	Out    *callback.Outcome
	Answer string
	Kind   string
	Report *callback.Report
	Off    bool // this admin makes no calls
}

func (a *Admin) testRoutes(g *echo.Group) {
	g.GET("/topics/:topic/test", a.need(account.RoleOperator, func(c echo.Context) error { return a.testPage(c, "") }))
	g.POST("/topics/:topic/test", a.need(account.RoleOperator, func(c echo.Context) error { return a.testPage(c, c.FormValue("do")) }))
}

const sampleBody = "{\n  \"test\": true\n}"

// testPage calls a topic's endpoint with a test job: once, to see request and answer, or as the endpoint doctor does.
func (a *Admin) testPage(c echo.Context, do string) error {
	t, err := a.topicOf(c)
	if err != nil {
		return err
	}
	d := &testData{Topic: t, Body: sampleBody, Off: a.opts.Pages.Caller == nil}
	if do == "" || d.Off {
		return a.render(c, http.StatusOK, "topic_test", d)
	}
	d.Body = c.FormValue("body")
	if !json.Valid([]byte(d.Body)) {
		d.Errors = map[string]string{"body": a.t(c, "topic.not_json")}
		return a.render(c, http.StatusUnprocessableEntity, "topic_test", d)
	}
	if err := a.testCall(c.Request().Context(), d, do); err != nil {
		d.Errors = map[string]string{"body": err.Error()}
	}
	return a.render(c, http.StatusOK, "topic_test", d)
}

func endpointOf(t *registry.Topic) (*callback.Endpoint, error) {
	return callback.CompileEndpoint(callback.EndpointSpec{
		URL: t.CallbackURL, Method: t.Method, ContentType: t.ContentType, Headers: t.Headers, RetryIf: t.RetryIf, Secrets: t.Secrets,
	})
}

func (a *Admin) testCall(ctx context.Context, d *testData, do string) error {
	t := d.Topic
	e, err := endpointOf(t)
	if err != nil {
		return err
	}
	now := time.Now()
	r := &callback.Request{
		Topic: t.Name, ID: "wakecall-probe-" + queue.NewID(), Body: []byte(strings.TrimSpace(d.Body)), Priority: t.Priority, Attempt: 1,
		MaxAttempts: t.MaxAttempts, DueAt: now, CreatedAt: now, Timeout: min(t.TTR.Std(), maxTestCall),
	}
	if do == "doctor" {
		d.Report = a.opts.Pages.Caller.Probe(ctx, e, r)
		d.Sent, d.Out = &d.Report.Sent, &d.Report.First
	} else {
		if d.Sent, err = a.opts.Pages.Caller.Describe(e, r); err != nil {
			return err
		}
		out := a.opts.Pages.Caller.Do(ctx, e, r)
		d.Out = &out
	}
	d.Answer, d.Kind, _ = shownBody(d.Out.Answer)
	return nil
}

// maxTestCall is how long somebody waits for a test.
const maxTestCall = 15 * time.Second
