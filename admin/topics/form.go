package topics

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/callback"
	"github.com/wakecall/wakecall/internal/registry"
)

// A topic's form also has sign, which requests a signing secret for a new topic, and etag, the ETag of the topic when
// its form was opened.
type topicFormData struct {
	Form    page.Form
	Errors  map[string]string
	New     bool
	Retry   []retryStep
	Methods []string
	Types   []string
	Levels  []string
	Safety  []string

	Deliveries, Expiries, Dialects []string

	Conflicts []page.Conflict // somebody else has changed the topic since the form was opened
}

// advanced are the fields that few topics need, by the card of the form that has them.
var advanced = map[string][]string{
	"what": {"method", "content_type", "job_urls", "cloudevents", "headers"},
	"when": {"priority", "expires_after", "on_expiry", "remember", "durability", "shard", "dialect", "retry_if",
		"per_key", keyFlight, keyRate, keySkip},
}

// The fields of per_key, with the names that its errors have.
const (
	keyFlight = "per_key.max_in_flight"
	keyRate   = "per_key.rate_limit"
	keySkip   = "per_key.skip_retrying"
)

// Open reports whether the advanced fields of a card are shown at first: one differs from its default, has an error, or
// was changed by somebody else.
func (d topicFormData) Open(card string) bool {
	blank := registry.NewTopic("")
	usual := formOf(&blank)
	return slices.ContainsFunc(advanced[card], func(name string) bool {
		return d.Form.Differs(name, usual, d.Errors, d.Conflicts)
	})
}

func formOf(t *registry.Topic) page.Form {
	f := page.Typed(t.Fields())
	var perKey map[string]json.RawMessage
	_ = json.Unmarshal([]byte(f["per_key"]), &perKey) // empty if the topic has none
	delete(f, "per_key")
	for name, value := range page.Typed(perKey) {
		f["per_key."+name] = value
	}
	f["etag"] = t.ETag()
	return f
}

// topicOf decodes and validates a form with the code that reads the API's topics. state stays as it is.
func topicOf(f page.Form, state registry.TopicState) (*registry.Topic, error) {
	headers, err := f.Headers()
	errs := []error{err}
	f["cloudevents"] = strconv.FormatBool(f["cloudevents"] == "true") // a box without a check sends nothing
	fields := map[string]any{
		"emails": splitList(f["emails"]), "retry": splitList(f["retry"]), "headers": headers, "state": string(state),
		"job_urls": splitList(f["job_urls"]), "cloudevents": json.RawMessage(f["cloudevents"]),
	}
	for _, name := range []string{"title", "callback_url", "method", "content_type", "priority", "retry_if", "owner"} {
		fields[name] = f[name]
	}
	for _, name := range []string{
		"delay", "ttr", "expires_after", "durability", "remember", "shard", "delivery", "on_expiry", "dialect",
	} {
		if f[name] != "" {
			fields[name] = f[name]
		}
	}
	for _, name := range []string{"max_attempts", "max_in_flight", "rate_limit"} {
		errs = append(errs, addNumber(fields, name, f, name))
	}
	perKey, err := perKeyOf(f)
	if errs = append(errs, err); perKey != nil {
		fields["per_key"] = perKey
	}
	body, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("read the form of topic %s: %w", f["name"], err)
	}
	t, err := registry.DecodeTopic(f["name"], body)
	return t, errors.Join(append(errs, err)...)
}

// addNumber adds the number in a field of a form, if it is not empty, to what is encoded.
func addNumber(to map[string]any, name string, f page.Form, field string) error {
	text := f[field]
	if _, err := strconv.ParseFloat(text, 64); err == nil && json.Valid([]byte(text)) {
		to[name] = json.Number(text)
	} else if text != "" {
		return page.FieldError(field, "field.number", text)
	}
	return nil
}

// perKeyOf returns nil if keys have no effect. The API's default of max_in_flight is not used: an empty field would
// then not remove the limits.
func perKeyOf(f page.Form) (map[string]any, error) {
	k := map[string]any{"skip_retrying": f[keySkip] == "true"}
	if f[keyFlight] == "" {
		if f[keySkip] == "" && (f[keyRate] == "" || f[keyRate] == "0") {
			return nil, nil
		}
		return nil, page.FieldError(keyFlight, "field.key_flight")
	}
	return k, errors.Join(addNumber(k, "max_in_flight", f, keyFlight), addNumber(k, "rate_limit", f, keyRate))
}

func splitList(s string) []string {
	return append([]string{}, page.Words(s)...)
}

func (h *Handler) formPage(c echo.Context, status int, d topicFormData) error {
	d.Methods, d.Types, d.Levels = []string{"POST", "PUT", "GET"}, []string{"json", "form"}, []string{"high", "normal",
		"low"}
	d.Deliveries = []string{string(registry.DeliveryPush), string(registry.DeliveryPull)}
	d.Expiries = []string{string(registry.ExpiryDead), string(registry.ExpiryDrop)}
	d.Safety = []string{string(registry.DurabilityMemory), string(registry.DurabilityReplica)}
	d.Dialects = registry.Dialects
	d.Retry = retrySteps(d.Form["retry"], d.Form["max_attempts"])
	return h.Pages.Render(c, status, "topic_form", d)
}

// newTopicPage offers an empty form, or a copy of the topic that the query names.
func (h *Handler) newTopicPage(c echo.Context) error {
	t := registry.NewTopic("")
	if from := h.Registry.Snapshot().Topics.Get(c.QueryParam("from")); from != nil {
		t = *from
		t.Name = ""
	}
	f := formOf(&t)
	f["sign"], f["etag"] = "on", ""
	return h.formPage(c, http.StatusOK, topicFormData{Form: f, New: true})
}

func (h *Handler) createTopic(c echo.Context) error {
	f := page.ReadForm(c)
	t, err := topicOf(f, registry.TopicActive)
	if h.Registry.Snapshot().Topics.Get(f["name"]) != nil {
		err = errors.Join(page.FieldError("name", "topic.name_taken", f["name"]), err)
	}
	secret := ""
	if err == nil && f["sign"] != "" {
		secret = newSigningSecret()
		t.Secrets = []string{secret}
	}
	if err == nil {
		_, err = h.Editor.PutTopic(c.Request().Context(), page.Actor(c), *t, registry.IfNew)
	}
	if errors.Is(err, registry.ErrChanged) {
		err = page.FieldError("name", "topic.name_taken", f["name"])
	}
	if err != nil {
		return h.formProblem(c, err, topicFormData{Form: f, New: true})
	}
	h.Flashes.Add(c, "success", "topic.created", f["name"])
	if secret != "" {
		if err := h.Flashes.KeepSecret(c, keySecretOf+f["name"], secret); err != nil {
			return err
		}
	}
	return h.Pages.Redirect(c, h.Pages.Below("/topics", f["name"]))
}

func (h *Handler) formProblem(c echo.Context, err error, d topicFormData) error {
	fields, rest := h.Texts.FieldErrors(c, err)
	if rest != nil {
		return rest
	}
	if text := fields["topic"]; text != "" {
		fields["name"] = text
	}
	d.Errors = fields
	return h.formPage(c, http.StatusUnprocessableEntity, d)
}

func (h *Handler) editTopicPage(c echo.Context, t *registry.Topic) error {
	return h.formPage(c, http.StatusOK, topicFormData{Form: formOf(t)})
}

func (h *Handler) saveTopic(c echo.Context, was *registry.Topic) error {
	f := page.ReadForm(c)
	f["name"] = was.Name
	t, err := topicOf(f, was.State)
	if err == nil {
		var unchanged []registry.Condition
		if f["etag"] != "" {
			unchanged = append(unchanged, registry.IfMatch(f["etag"]))
		}
		_, err = h.Editor.PutTopic(c.Request().Context(), page.Actor(c), *t, unchanged...)
	}
	if errors.Is(err, registry.ErrChanged) {
		return h.conflictPage(c, f, t)
	}
	if err != nil {
		return h.formProblem(c, err, topicFormData{Form: f})
	}
	h.Flashes.Add(c, "success", "topic.saved", f["name"])
	return h.Pages.Redirect(c, h.Pages.Below("/topics", f["name"]))
}

// conflictPage shows both versions. Saving again overwrites the version shown.
func (h *Handler) conflictPage(c echo.Context, f page.Form, yours *registry.Topic) error {
	h.Registry.Refresh(c.Request().Context()) // another host's change may not be known here yet
	theirs, err := page.TopicOf(c, h.Registry)
	if err != nil {
		return err
	}
	f["etag"] = theirs.ETag()
	list := page.Conflicts(registry.DifferingFields(theirs, yours), theirs.Fields(), yours.Fields())
	if len(list) == 0 { // only a secret differs, which the form does not show
		_, err := h.Editor.PutTopic(c.Request().Context(), page.Actor(c), *yours, registry.IfMatch(f["etag"]))
		if err != nil {
			return err
		}
		h.Flashes.Add(c, "success", "topic.saved", f["name"])
		return h.Pages.Redirect(c, h.Pages.Below("/topics", f["name"]))
	}
	return h.formPage(c, http.StatusConflict, topicFormData{Form: f, Conflicts: list})
}

const secretBytes = 32

// newSigningSecret returns a secret in the format of Standard Webhooks.
func newSigningSecret() string {
	b := make([]byte, secretBytes)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return "whsec_" + base64.StdEncoding.EncodeToString(b)
}

// retryStep is an attempt and its time, for the preview.
type retryStep struct {
	N           int
	After, From time.Duration // after the previous attempt, from the first
}

const retryShown = 12

func retrySteps(retry, maxAttempts string) []retryStep {
	t := registry.NewTopic("preview")
	if n, err := strconv.Atoi(maxAttempts); err == nil && n > 0 {
		t.MaxAttempts = n
	}
	for _, text := range splitList(retry) {
		var d registry.Duration
		if d.UnmarshalText([]byte(text)) != nil || d <= 0 {
			return nil
		}
		t.Retry = append(t.Retry, d)
	}
	steps := []retryStep{{N: 1}}
	for n := 1; n < min(t.MaxAttempts, retryShown); n++ {
		after := t.RetryDelay(n)
		steps = append(steps, retryStep{n + 1, after, steps[n-1].From + after})
	}
	return steps
}

func (h *Handler) previewRetry(c echo.Context) error {
	return h.Pages.Fragment(c, "topic_form#retry",
		topicFormData{Retry: retrySteps(c.FormValue("retry"), c.FormValue("max_attempts"))})
}

type checkData struct {
	OK   bool
	Text string
}

func (h *Handler) checkName(c echo.Context) error {
	name := strings.TrimSpace(c.QueryParam("name"))
	d := checkData{OK: true, Text: h.Texts.T(c, "topic.name_free")}
	if err := registry.ValidTopicName(name); err != nil {
		d = checkData{Text: h.Texts.Explain(c, err)}
	} else if h.Registry.Snapshot().Topics.Get(name) != nil {
		d = checkData{Text: h.Texts.T(c, "topic.name_taken", name)}
	}
	return h.Pages.Fragment(c, "topic_form#check", d)
}

const maxSample = 64 << 10

// checkRetryIf evaluates an expression on a sample answer.
func (h *Handler) checkRetryIf(c echo.Context) error {
	status, err := strconv.Atoi(strings.TrimSpace(c.FormValue("sample_status")))
	if err != nil {
		status = http.StatusOK
	}
	sample := c.FormValue("sample_body")
	retry, err := callback.TryRetryIf(
		c.FormValue("dialect"),
		c.FormValue("retry_if"),
		status,
		http.Header{"Content-Type": {"application/json"}},
		[]byte(sample[:min(len(sample), maxSample)]),
	)
	d := checkData{OK: true, Text: h.Texts.T(c, "topic.retry_if_no")}
	switch {
	case err != nil:
		d = checkData{Text: h.Texts.Explain(c, err)}
	case retry:
		d.Text = h.Texts.T(c, "topic.retry_if_yes")
	}
	return h.Pages.Fragment(c, "topic_form#check", d)
}
