package topics

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/jobs"
	"github.com/wakecall/wakecall/internal/callback"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

type testData struct {
	Topic  *registry.Topic
	Body   string
	Errors map[string]string
	Sent   *callback.Sent
	Out    *callback.Outcome
	Answer string
	Kind   string
	Report *callback.Report
}

const sampleBody = "{\n  \"test\": true\n}"

// testPage calls a topic's endpoint with a test job: once, to show request and answer, or with the endpoint doctor's
// series of tests.
func (h *Handler) testPage(c echo.Context, t *registry.Topic) error {
	do := c.Request().PostFormValue("do") // empty when the page is first opened
	d := &testData{Topic: t, Body: sampleBody}
	if do == "" {
		return h.Pages.Render(c, http.StatusOK, "topic_test", d)
	}
	d.Body = c.FormValue("body")
	if !json.Valid([]byte(d.Body)) {
		d.Errors = map[string]string{"body": h.Texts.T(c, "topic.not_json")}
		return h.Pages.Render(c, http.StatusUnprocessableEntity, "topic_test", d)
	}
	if err := h.testCall(c.Request().Context(), d, do); err != nil {
		d.Errors = map[string]string{"body": h.Texts.Explain(c, err)}
	}
	if d.Sent != nil {
		jobs.MaskSent(c, d.Sent, t, false)
	}
	return h.Pages.Render(c, http.StatusOK, "topic_test", d)
}

func (h *Handler) testCall(ctx context.Context, d *testData, do string) error {
	t := d.Topic
	e, err := jobs.EndpointOf(t)
	if err != nil {
		return err
	}
	now := time.Now()
	r := &callback.Request{
		Topic: t.Name, ID: "wakecall-probe-" + store.NewID(), Body: []byte(strings.TrimSpace(d.Body)),
		Priority: t.Priority, Attempt: 1, MaxAttempts: t.MaxAttempts, DueAt: now, CreatedAt: now,
		Timeout: min(t.TTR.Std(), maxTestCall),
	}
	if do == "doctor" {
		d.Report = h.Caller.Probe(ctx, e, r)
		d.Sent, d.Out = &d.Report.Sent, &d.Report.First
	} else {
		if d.Sent, err = h.Caller.Describe(e, r); err != nil {
			return err
		}
		out := h.Caller.Do(ctx, e, r)
		d.Out = &out
	}
	d.Answer, d.Kind, _ = jobs.ShownBody(d.Out.Answer)
	return nil
}

// maxTestCall limits the time of a test callback.
const maxTestCall = 15 * time.Second
