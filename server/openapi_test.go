package server_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/openapitest"
)

func description(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapitest.Document()
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// operations calls do with every operation of the description.
func operations(doc *openapi3.T, do func(op *openapi3.Operation)) {
	for _, item := range doc.Paths.Map() {
		for _, op := range item.Operations() {
			do(op)
		}
	}
}

// schemasIn calls do with a schema and all that it contains.
func schemasIn(s *openapi3.SchemaRef, at string, seen map[*openapi3.Schema]bool, do func(at string, s *openapi3.Schema)) {
	if s == nil || s.Value == nil || seen[s.Value] {
		return
	}
	seen[s.Value] = true
	do(at, s.Value)
	for name, p := range s.Value.Properties {
		schemasIn(p, at+"."+name, seen, do)
	}
	for _, of := range []openapi3.SchemaRefs{s.Value.AllOf, s.Value.OneOf, s.Value.AnyOf, {s.Value.Items,
		s.Value.AdditionalProperties.Schema}} {
		for _, part := range of {
			schemasIn(part, at, seen, do)
		}
	}
}

// TestAnswersAreOpen, so that generated clients accept new fields, and requests are closed, as the server is strict.
func TestAnswersAreOpen(t *testing.T) {
	t.Parallel()
	isFalse := func(b openapi3.BoolSchema) bool { return b.Has != nil && !*b.Has }
	operations(description(t), func(op *openapi3.Operation) {
		for status, r := range op.Responses.Map() {
			for _, content := range r.Value.Content {
				at := op.OperationID + " " + status
				schemasIn(content.Schema, at, map[*openapi3.Schema]bool{}, func(at string, s *openapi3.Schema) {
					if isFalse(s.AdditionalProperties) || isFalse(s.UnevaluatedProperties) {
						t.Errorf("the answer %s is closed", at)
					}
				})
			}
		}
		if op.RequestBody == nil {
			return
		}
		for _, content := range op.RequestBody.Value.Content {
			closed := map[*openapi3.Schema]bool{} // the parts of a closed schema, which closes them
			schemasIn(content.Schema, op.OperationID, map[*openapi3.Schema]bool{}, func(at string, s *openapi3.Schema) {
				if isFalse(s.UnevaluatedProperties) {
					for _, part := range s.AllOf {
						closed[part.Value] = true
					}
				}
				if len(s.Properties) > 0 && !isFalse(s.AdditionalProperties) && !closed[s] {
					t.Errorf("the request %s is open", at)
				}
			})
		}
	})
}

// TestEveryAnswerHasAnExample that is valid.
func TestEveryAnswerHasAnExample(t *testing.T) {
	t.Parallel()
	operations(description(t), func(op *openapi3.Operation) {
		for status, r := range op.Responses.Map() {
			for kind, content := range r.Value.Content {
				if content.Schema == nil || !strings.Contains(kind, "json") || kind == "application/x-ndjson" {
					continue
				}
				example := content.Example
				if example == nil {
					example = content.Schema.Value.Example
				}
				text, err := json.Marshal(example)
				var value any
				if err := json.Unmarshal(text, &value); err != nil || value == nil {
					t.Errorf("%s %s has no example: %v", op.OperationID, status, err)
					continue
				}
				if err == nil {
					err = content.Schema.Value.VisitJSON(value, openapi3.EnableJSONSchema2020())
				}
				if err == nil {
					err = openapitest.AllDescribed(content.Schema, text)
				}
				if err != nil {
					t.Errorf("the example of %s %s: %v", op.OperationID, status, err)
				}
			}
		}
	})
}

// TestErrorsListTheirCodes: each error response lists the codes that its status may have, as the list of all codes says.
func TestErrorsListTheirCodes(t *testing.T) {
	t.Parallel()
	doc := description(t)
	statuses := map[string][]string{} // by code
	row := regexp.MustCompile("(?m)^- `(\\w+)` \\(([0-9, ]+)\\)")
	for _, m := range row.FindAllStringSubmatch(doc.Components.Schemas["Code"].Value.Description, -1) {
		statuses[m[1]] = strings.Split(m[2], ", ")
	}
	if len(statuses) < 30 {
		t.Fatalf("only %d codes found", len(statuses))
	}
	used := map[string]bool{}
	word := regexp.MustCompile("`(\\w+)`")
	operations(doc, func(op *openapi3.Operation) {
		for status, r := range op.Responses.Map() {
			if status < "400" {
				continue
			}
			_, list, listed := strings.Cut(*r.Value.Description, "`code`: ")
			if !listed {
				t.Errorf("%s %s lists no codes", op.OperationID, status)
			}
			for _, m := range word.FindAllStringSubmatch(list, -1) {
				used[m[1]] = true
				if !slices.Contains(statuses[m[1]], status) {
					t.Errorf("%s %s lists %s, which has %v", op.OperationID, status, m[1], statuses[m[1]])
				}
			}
		}
	})
	for code := range maps.Keys(statuses) {
		if !used[code] {
			t.Errorf("no response lists %s", code)
		}
	}
}

// TestLimitsOfTheDescription: what the description allows is accepted, and one more is refused.
func TestLimitsOfTheDescription(t *testing.T) {
	t.Parallel()
	doc := description(t)
	schema := func(name string) *openapi3.Schema { return doc.Components.Schemas[name].Value }
	push := schema("PushFields").Properties
	request := func(op, path string) *openapi3.Schema {
		body := doc.Paths.Find(path).GetOperation(op).RequestBody.Value
		return body.Content["application/json"].Schema.Value
	}
	texts := func(n uint64) string { return `["` + strings.Repeat(`a","`, int(n)-1) + `a"]` }
	list := func(n uint64, item string) string { return "[" + strings.Repeat(item+",", int(n)-1) + item + "]" }
	text := func(n uint64) string { return strings.Repeat("x", int(n)) }
	a := newAPI(t)
	if got := *push["retry"].Value.MaxItems; got != store.MaxWaits {
		t.Errorf("a job may have %d retries, described are %d", store.MaxWaits, got)
	}
	for name, tt := range map[string]struct {
		method, path string
		most         uint64
		body         func(n uint64) string
	}{
		"length of an id": {"POST", orders, *schema("ID").MaxLength,
			func(n uint64) string { return `{"body":1,"id":"` + text(n) + `"}` }},
		"retries": {"POST", orders, *push["retry"].Value.MaxItems,
			func(n uint64) string { return `{"body":1,"retry":` + list(n, "1") + `}` }},
		"jobs of a batch": {"POST", "/v1/jobs", *request("POST", "/v1/jobs").Properties["jobs"].Value.MaxItems,
			func(n uint64) string { return `{"jobs":` + list(n, `{"topic":"shop.orders","body":1}`) + `}` }},
		"attempts": {"POST", orders, 1000,
			func(n uint64) string { return fmt.Sprintf(`{"body":1,"max_attempts":%d}`, n) }},
		"ids of dead jobs": {"POST", "/v1/topics/shop.orders/dead/retry", *schema("Selection").Properties["ids"].Value.MaxItems,
			func(n uint64) string { return `{"ids":` + texts(n) + `}` }},
		"limit of dead jobs": {"POST", "/v1/topics/shop.orders/dead/retry",
			uint64(*schema("Selection").Properties["limit"].Value.Max),
			func(n uint64) string { return fmt.Sprintf(`{"limit":%d}`, n) }},
		"reason of a pause": {"POST", "/v1/topics/shop.orders/pause", *schema("TopicPause").Properties["reason"].Value.MaxLength,
			func(n uint64) string { return `{"reason":"` + text(n) + `"}` }},
		"topics of a request": {"PUT", "/v1/topics", *request("PUT", "/v1/topics").Properties["topics"].Value.MaxItems,
			func(n uint64) string {
				topics := make([]string, n)
				for i := range topics {
					topics[i] = fmt.Sprintf(`{"name":"t%d","callback_url":"http://h/"}`, i)
				}
				return `{"topics":[` + strings.Join(topics, ",") + `]}`
			}},
		"patterns of job URLs": {"PUT", "/v1/topics/shop.urls", *schema("TopicInput").Properties["job_urls"].Value.MaxItems,
			func(n uint64) string {
				return `{"callback_url":"https://h/","job_urls":` + list(n, `"https://h.example/"`) + `}`
			}},
		"jobs in flight of a key": {"PUT", "/v1/topics/shop.key",
			uint64(*schema("TopicInput").Properties["per_key"].Value.Properties["max_in_flight"].Value.Max),
			func(n uint64) string {
				return fmt.Sprintf(`{"callback_url":"https://h/","per_key":{"max_in_flight":%d}}`, n)
			}},
	} {
		if r := a.do(tt.method, tt.path, tt.body(tt.most)); r.status >= 300 {
			t.Errorf("%s: %d are described, but refused: %d %.200s", name, tt.most, r.status, r.body)
		}
		if r := a.do(tt.method, tt.path, tt.body(tt.most+1)); r.status != 422 && r.status != 400 {
			t.Errorf("%s: %d are described, but one more was answered %d", name, tt.most, r.status)
		}
	}
}
