package registry

import (
	"encoding/json"
	"errors"
	"testing"
	"time"
)

// patched returns a topic that differs from the defaults in many fields.
func patched() Topic {
	t := topic("t")
	t.Title, t.TTR, t.Retry = "Orders", Duration(time.Minute), []Duration{Duration(time.Second), Duration(time.Hour)}
	t.Headers = map[string]string{"X-Team": "shop", "X-Old": "1", "Authorization": "Bearer abc"}
	t.PerKey = &PerKey{MaxInFlight: 1, RateLimit: 2, SkipRetrying: true}
	t.Secrets = []string{oneSecret}
	return t
}

func TestMergeTopic(t *testing.T) {
	t.Parallel()
	for patch, want := range map[string]map[string]string{
		`{}`:                           {"title": `"Orders"`, "ttr": `"1m0s"`, "state": `"active"`},
		`{"title":"New"}`:              {"title": `"New"`, "ttr": `"1m0s"`},
		`{"ttr":null,"retry":null}`:    {"ttr": `"10s"`, "retry": `[]`, "title": `"Orders"`},
		`{"retry":["5s"]}`:             {"retry": `["5s"]`},
		`{"headers":{"X-Old":null}}`:   {"headers": `{"Authorization":"Bearer abc","X-Team":"shop"}`},
		`{"headers":{"X-New":"2"}}`:    {"headers": `{"Authorization":"Bearer abc","X-New":"2","X-Old":"1","X-Team":"shop"}`},
		`{"headers":null}`:             {"headers": `{}`},
		`{"per_key":{"rate_limit":5}}`: {"per_key": `{"max_in_flight":1,"rate_limit":5,"skip_retrying":true}`},
		`{"per_key":{"rate_limit":null,"skip_retrying":null}}`: {
			"per_key": `{"max_in_flight":1,"rate_limit":0,"skip_retrying":false}`},
		`{"per_key":null}`: {"per_key": ``},
		`{"name":"t","created_at":"2026-01-02T03:04:05.000Z","state":"paused"}`: {"state": `"paused"`},
	} {
		was := patched()
		got, err := MergeTopic(&was, []byte(patch))
		if err != nil {
			t.Errorf("%s: %v", patch, err)
			continue
		}
		fields := got.Fields()
		for name, value := range want {
			if string(fields[name]) != value {
				t.Errorf("%s: %s is %s, want %s", patch, name, fields[name], value)
			}
		}
	}
}

// TestMergeTopicSecrets: without the field they are kept, null removes them, and nobody may send back a mask.
func TestMergeTopicSecrets(t *testing.T) {
	t.Parallel()
	was := patched()
	was.CallbackURL = "http://h/?token=abc"
	for patch, want := range map[string]string{
		`{"title":"x"}`: `null`, `{"secrets":null}`: `[]`, `{"secrets":[]}`: `[]`,
		`{"secrets":["` + anotherSecret + `"]}`: `["` + anotherSecret + `"]`,
	} {
		got, err := MergeTopic(&was, []byte(patch))
		if err != nil {
			t.Errorf("%s: %v", patch, err)
			continue
		}
		if secrets, _ := json.Marshal(got.Secrets); string(secrets) != want {
			t.Errorf("%s: the secrets are %s, want %s", patch, secrets, want)
		}
	}
	masked, _ := json.Marshal(was.Masked())
	var shown map[string]json.RawMessage
	if err := json.Unmarshal(masked, &shown); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"headers", "callback_url", "secrets"} {
		_, err := MergeTopic(&was, []byte(`{"`+field+`":`+string(shown[field])+`}`))
		if fe := (*FieldError)(nil); !errors.As(err, &fe) || fe.Field != field || !fe.OutOfRange {
			t.Errorf("the mask of %s: %v", field, err)
		}
	}
}

func TestMergeTopicRefuses(t *testing.T) {
	t.Parallel()
	for patch, field := range map[string]string{
		`[]`: "", `{`: "", `{"title":"a","title":"b"}`: "title", `{"colour":null}`: "colour", `{"colour":1}`: "colour",
		`{"headers":"x"}`: "headers", `{"headers":{"X":1}}`: "headers", `{"headers":{"A":"1","A":"2"}}`: "headers",
		`{"per_key":{"x":null}}`: "per_key.x", `{"per_key":1}`: "per_key", `{"name":"other"}`: "name",
		`{"max_attempts":5000}`: "max_attempts", `{"callback_url":null}`: "callback_url", `{"ttr":"25h"}`: "ttr",
		`{"delivery":"pull","job_urls":["https://h/"]}`: "job_urls",
	} {
		was := patched()
		_, err := MergeTopic(&was, []byte(patch))
		if fe := (*FieldError)(nil); !errors.As(err, &fe) || fe.Field != field {
			t.Errorf("%s: %v, want an error of %q", patch, err, field)
		}
	}
}
