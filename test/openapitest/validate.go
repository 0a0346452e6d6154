package openapitest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/wakecall/wakecall/server"
)

// Document loads the description and validates it; it does so once.
var Document = sync.OnceValues(func() (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData(server.OpenAPI())
	if err != nil {
		return nil, fmt.Errorf("loading openapi.yaml: %w", err)
	}
	if err := doc.Validate(context.Background()); err != nil {
		return nil, fmt.Errorf("openapi.yaml is not valid: %w", err)
	}
	for _, anything := range []string{"AnyJSON", "Result"} { // kin-openapi refuses null without a type
		types := openapi3.Types{"object", "array", "string", "number", "boolean", "null"}
		doc.Components.Schemas[anything].Value.Type = &types
	}
	return doc, nil
})

// Transport returns a round tripper that validates every exchange of base.
func Transport(t testing.TB, base http.RoundTripper) http.RoundTripper { return &transport{t, base} }

type transport struct {
	t    testing.TB
	base http.RoundTripper
}

func (tr *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	sent, err := drain(&req.Body)
	if err != nil {
		return nil, err
	}
	resp, err := tr.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if err := Check(req, sent, resp); err != nil {
		tr.t.Errorf("%s %s: %v", req.Method, req.URL, err)
	}
	return resp, nil
}

// drain reads a body and puts it back.
func drain(body *io.ReadCloser) ([]byte, error) {
	if *body == nil || *body == http.NoBody {
		return nil, nil
	}
	data, err := io.ReadAll(*body)
	if err := errors.Join(err, (*body).Close()); err != nil {
		return nil, err
	}
	*body = io.NopCloser(bytes.NewReader(data))
	return data, nil
}

// Check compares an exchange with the description. A request must match when its answer is a success; an answer must
// always match. When no route matches (404, 405 and OPTIONS), the answer must only have the form of other refusals.
func Check(req *http.Request, sent []byte, resp *http.Response) error {
	got, err := drain(&resp.Body)
	if err != nil {
		return err
	}
	if resp.Header.Get("X-Request-Id") == "" && resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		return fmt.Errorf("the answer %d has no X-Request-Id", resp.StatusCode)
	}
	route, params, err := find(req)
	if err != nil {
		return err
	}
	if route == nil {
		return checkUnrouted(resp, got)
	}
	input := &openapi3filter.RequestValidationInput{
		Request: clone(req, sent), PathParams: params, Route: route,
		Options: &openapi3filter.Options{
			AuthenticationFunc: authenticated, IncludeResponseStatus: true,
			ExcludeRequestBody:  !sentJSON(route) || refusesMembers(route, got),
			ExcludeResponseBody: !isJSON(resp.Header) || req.Method == http.MethodHead, SkipSettingDefaults: true,
		},
	}
	if resp.StatusCode < 300 {
		if err := openapi3filter.ValidateRequest(context.Background(), input); err != nil {
			return fmt.Errorf("it was accepted, but the request does not match: %w", err)
		}
		if err := checkQuery(route, req.URL.Query()); err != nil {
			return err
		}
	}
	return checkAnswer(input, resp, got)
}

// checkQuery refuses parameters that the description does not have, which openapi3filter ignores.
func checkQuery(route *routers.Route, query url.Values) error {
	for name := range query {
		name, _, _ = strings.Cut(name, "[") // a member of an object
		if route.Operation.Parameters.GetByInAndName("query", name) == nil {
			return fmt.Errorf("the query parameter %s was accepted, but is not described", name)
		}
	}
	return nil
}

var router = sync.OnceValues(func() (routers.Router, error) {
	doc, err := Document()
	if err != nil {
		return nil, err
	}
	return gorillamux.NewRouter(doc)
})

// find returns the route of a request and its parameters; nil if there is none. HEAD works wherever GET does.
func find(req *http.Request) (*routers.Route, map[string]string, error) {
	all, err := router()
	if err != nil {
		return nil, nil, err
	}
	asked := *req
	if req.Method == http.MethodHead {
		asked.Method = http.MethodGet
	}
	route, params, notFound := all.FindRoute(&asked)
	if notFound != nil {
		return nil, nil, nil
	}
	for name, value := range params { // as sent, because an id may contain an encoded slash
		if params[name], err = url.PathUnescape(value); err != nil {
			return nil, nil, err
		}
	}
	return route, params, nil
}

// clone returns a request with a body that can be read again. curl and others send JSON with any content type.
func clone(req *http.Request, sent []byte) *http.Request {
	again := req.Clone(context.Background())
	again.Body = io.NopCloser(bytes.NewReader(sent))
	again.Header.Set("Content-Type", "application/json")
	return again
}

func authenticated(_ context.Context, in *openapi3filter.AuthenticationInput) error {
	if !strings.HasPrefix(strings.ToLower(in.RequestValidationInput.Request.Header.Get("Authorization")), "bearer ") {
		return in.NewError(nil)
	}
	return nil
}

// sentJSON reports whether the route accepts JSON: a raw body is not checked.
func sentJSON(route *routers.Route) bool {
	body := route.Operation.RequestBody
	return body != nil && body.Value.Content["application/json"] != nil
}

// refusesMembers reports whether an answer to a batch refuses some of its members, which need not match then.
func refusesMembers(route *routers.Route, got []byte) bool {
	return route.Operation.OperationID == "pushJobs" && bytes.Contains(got, []byte(`{"error":{`))
}

func isJSON(h http.Header) bool {
	kind, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return kind == "application/json" || kind == "application/problem+json"
}

func checkAnswer(input *openapi3filter.RequestValidationInput, resp *http.Response, got []byte) error {
	described := input.Route.Operation.Responses.Status(resp.StatusCode)
	if described == nil {
		return fmt.Errorf("the status %d is not described", resp.StatusCode)
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if len(described.Value.Content) > 0 && described.Value.Content[kind] == nil {
		return fmt.Errorf("the content type %q of the answer %d is not described", kind, resp.StatusCode)
	}
	if len(described.Value.Content) == 0 && len(got) > 0 {
		return fmt.Errorf("the answer %d has a body, which is not described", resp.StatusCode)
	}
	answer := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: resp.StatusCode, Header: resp.Header, Options: input.Options,
	}
	answer.SetBodyBytes(got)
	if err := openapi3filter.ValidateResponse(context.Background(), answer); err != nil {
		return fmt.Errorf("the answer %d does not match: %w\n%s", resp.StatusCode, err, got)
	}
	if content := described.Value.Content[kind]; isJSON(resp.Header) && len(got) > 0 {
		return AllDescribed(content.Schema, got)
	}
	return nil
}

func checkUnrouted(resp *http.Response, got []byte) error {
	if resp.StatusCode < 400 {
		if resp.StatusCode == http.StatusNoContent && resp.Header.Get("Allow") != "" {
			return nil // OPTIONS
		}
		return fmt.Errorf("no route is described, but it answered %d", resp.StatusCode)
	}
	if kind := resp.Header.Get("Content-Type"); kind != "application/problem+json" {
		if resp.StatusCode == http.StatusRequestHeaderFieldsTooLarge {
			return nil // net/http answers before a handler is called
		}
		return fmt.Errorf("a refusal of type %q", kind)
	}
	doc, err := Document()
	var value any
	if err := errors.Join(err, json.Unmarshal(got, &value)); err != nil {
		return err
	}
	return doc.Components.Schemas["Problem"].Value.VisitJSON(value, openapi3.EnableJSONSchema2020())
}
