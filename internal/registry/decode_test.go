package registry

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestDecodeTopic(t *testing.T) {
	t.Parallel()
	for in, ok := range map[string]func(*Topic) bool{
		`{"callback_url":"http://h/x"}`: func(x *Topic) bool {
			return x.MaxAttempts == 10 && x.TTR.Std() == 10*time.Second && x.Secrets == nil && x.Name == "t" &&
				x.Durability == DurabilityMemory
		},
		`{"callback_url":"http://h","ttr":1.5,"retry":["10s",60]}`: func(x *Topic) bool {
			return x.TTR.Std() == 1500*time.Millisecond && x.Retry[1].Std() == time.Minute
		},
		`{"callback_url":"https://h","secrets":[],"state":"paused"}`: func(x *Topic) bool {
			return x.Secrets != nil && x.State == TopicPaused
		},
		`{"callback_url":"https://h","secrets":null,"ttr":null}`: func(x *Topic) bool {
			return x.Secrets == nil && x.TTR.Std() == 10*time.Second
		},
		`{"callback_url":"https://h","secrets":["` + oneSecret +
			`"]}`: func(x *Topic) bool { return x.Secrets[0] == oneSecret },
		`{"name":"t","callback_url":"http://h","content_type":"form"}`: func(x *Topic) bool {
			return x.ContentType == "form"
		},
		`{"callback_url":"http://h","headers":{"X-A":"b"},"delay":"1h"}`: func(x *Topic) bool {
			return x.Headers["X-A"] == "b" && x.Delay.Std() == time.Hour
		},
		`{"callback_url":"http://h","rate_limit":0.5,"max_in_flight":1}`: func(x *Topic) bool {
			return x.RateLimit == 0.5 && x.MaxInFlight == 1
		},
		`{"callback_url":"http://h","max_attempts":1e2,"max_in_flight":3.0}`: func(x *Topic) bool { // as in a push
			return x.MaxAttempts == 100 && x.MaxInFlight == 3
		},
		`{"callback_url":"http://h","durability":"replica"}`: func(x *Topic) bool {
			return x.Durability == DurabilityReplica
		},
		` {"callback_url":"http://h","title":"\u00e4 ","emails":[]}` +
			" ": func(x *Topic) bool { return x.Title == "ä " && len(x.Emails) == 0 },
	} {
		x, err := DecodeTopic("t", []byte(in))
		if err != nil || !ok(x) {
			t.Errorf("%s: %+v, %v", in, x, err)
			continue
		}
		b, _ := json.Marshal(x.Public())
		back, err := DecodeTopic("t", b)
		if err != nil {
			t.Errorf("the answer is refused as input: %s: %v", b, err)
			continue
		}
		if x.Secrets = nil; !reflect.DeepEqual(x, back) {
			t.Errorf("%s became %+v", b, back)
		}
	}
}

func TestBadTopicsInJSON(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ field, in, says string }{
		{"callback_url", `{}`, "required"},
		{"callback_url", `{"callback_url":null}`, "required"},
		{"nonsense", `{"callback_url":"http://h","nonsense":1}`,
			"unknown field; must be one of title, delivery, callback_url"},
		{"Title", `{"callback_url":"http://h","Title":"x"}`, "unknown field"},
		{"title", `{"callback_url":"http://h","title":1}`, "must be a string, not 1"},
		{"title", `{"callback_url":"http://h","title":"a","title":"b"}`, "duplicate"},
		{"title", `{"callback_url":"http://h","title":"a","t\u0069tle":"b"}`, "duplicate"},
		{"title", "{\"callback_url\":\"http://h\",\"title\":\"\xff\"}", "UTF-8"},
		{"title", `{"callback_url":"http://h","title":"\ud800"}`, "surrogate"},
		{"owner", `{"callback_url":"http://h","owner":"a\udc00"}`, "surrogate"},
		{"secrets", `{"callback_url":"http://h","secrets":["\ud800"]}`, "surrogate"},
		{"title", `{"callback_url":"http://h","title":"a\u0000"}`, "control character"},
		{"ttr", `{"callback_url":"http://h","ttr":"soon"}`, `must be a duration such as "90s"`},
		{"ttr", `{"callback_url":"http://h","ttr":"90"}`, "must be a duration"},
		{"ttr", `{"callback_url":"http://h","ttr":{}}`, "must be a duration"},
		{"ttr", `{"callback_url":"http://h","ttr":true}`, "must be a duration"},
		{"max_attempts", `{"callback_url":"http://h","max_attempts":1.5}`, "must be an integer, not 1.5"},
		{"max_attempts", `{"callback_url":"http://h","max_attempts":"3"}`, "must be an integer"},
		{"max_attempts", `{"callback_url":"http://h","max_attempts":"3h"}`, "must be an integer"},
		{"rate_limit", `{"callback_url":"http://h","rate_limit":"NaN"}`, "must be a number"},
		{"retry", `{"callback_url":"http://h","retry":"1m"}`, "must be an array of durations"},
		{"retry", `{"callback_url":"http://h","retry":["1s","soon"]}`, "must be an array of durations"},
		{"retry", `{"callback_url":"http://h","retry":["1m",null]}`, "must be an array of durations"},
		{"emails", `{"callback_url":"http://h","emails":[1]}`, "must be an array of strings"},
		{"headers", `{"callback_url":"http://h","headers":[]}`, "must be an object of strings"},
		{"headers", `{"callback_url":"http://h","headers":{"X-A":1}}`, "must be an object of strings"},
		{"headers", `{"callback_url":"http://h","headers":{"X-A":null}}`, `"X-A" is null`},
		{"headers", `{"callback_url":"http://h","headers":{"X-A":"hidden","X-A":"b"}}`, "duplicate"},
		{"secrets", `{"callback_url":"http://h","secrets":"hidden"}`, "must be an array of strings"},
		{"secrets", `{"callback_url":"http://h","secrets":["hidden",1]}`, "must be an array of strings"},
		{"secrets", `{"callback_url":"http://h","secrets":["hidden"]}`, "whsec_"},
		{"name", `{"callback_url":"http://h","name":"other"}`, "as in the path"},
		{"name", `{"callback_url":"http://h","name":1}`, "must be a string"},
		{"created_at", `{"callback_url":"http://h","created_at":"yesterday"}`, "must be an instant"},
		{"", ``, "unexpected end"},
		{"", `{"callback_url":`, "unexpected end"},
		{"", `{"callback_url":"http://h"`, "unexpected end"},
		{"", `null`, "must be a JSON object"},
		{"", `[]`, "must be a JSON object"},
		{"", `nonsense`, "invalid JSON"},
		{"", `{"callback_url":"http://h",}`, "invalid JSON"},
		{"", `{"callback_url":"http://h"} x`, "unexpected data after"},
		{"", `{"callback_url":"http://h"}{}`, "unexpected data after"},
		{strings.Repeat("a", 64) + "…", `{"` + strings.Repeat("a", 99) + `":1}`, "unknown field"},
	} {
		x, err := DecodeTopic("t", []byte(c.in))
		var fe *FieldError
		if !errors.As(err, &fe) || x != nil || fe.Field != c.field || fe.OutOfRange ||
			!strings.Contains(fe.Detail(), c.says) ||
			strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", c.in, err)
		}
	}
	if _, err := DecodeTopic("A", []byte(`{"callback_url":"http://h"}`)); err == nil {
		t.Error("the name A was accepted")
	}
	_, err := DecodeTopic("t", []byte(`{"ttr":"soon","nonsense":1,"title":[]}`))
	for _, field := range []string{"ttr: ", "nonsense: ", "title: "} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s is not in: %v", field, err)
		}
	}
}

func TestDurations(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]time.Duration{
		`"90s"`: 90 * time.Second, `"1h30m"`: 90 * time.Minute, `90`: 90 * time.Second, `0.25`: 250 * time.Millisecond,
		`"0"`: 0, `0`: 0, `-1`: -time.Second, `1.001`: 1001 * time.Millisecond,
	} {
		var d Duration
		if err := json.Unmarshal([]byte(in), &d); err != nil || d.Std() != want {
			t.Errorf("%s: %v, %v", in, d, err)
		}
	}
	for _, in := range []string{`"90"`, `""`, `"soon"`, `null`, `true`, `[]`, `1e12`, `"-"`, `1e400`} {
		var d Duration
		if err := d.UnmarshalJSON([]byte(in)); err == nil {
			t.Errorf("%s became %v", in, d)
		}
	}
	if b, err := json.Marshal(Duration(90 * time.Second)); err != nil || string(b) != `"1m30s"` {
		t.Errorf("%s, %v", b, err)
	}
}

// A valid topic can be stored and read again, unchanged.
func FuzzDecodeTopic(f *testing.F) {
	for _, seed := range []string{
		`{"callback_url":"http://h/x","ttr":1.5,"retry":["10s",60],"headers":{"X-A":"b"},"secrets":["` + oneSecret +
			`"]}`,
		`{"callback_url":"https://[::1]:8443/?a=b","title":"ä","emails":["a@b.example"],"rate_limit":0.5,"state":"paused","name":"t"}`,
		`{"callback_url":"http://h","title":1,"title":"\ud800","headers":{"a":null}} x`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		x, err := DecodeTopic("t", data)
		if err != nil {
			var fe *FieldError
			if !errors.As(err, &fe) || x != nil {
				t.Fatalf("%v is not a FieldError, or was returned with %v", err, x)
			}
			return
		}
		row, err := newTopicRow(testKey, x)
		if err != nil {
			t.Fatal(err)
		}
		back, err := row.topic(testKey)
		if err != nil || !reflect.DeepEqual(x, back) {
			t.Fatalf("%+v was read back as %+v, %v", x, back, err)
		}
		if err := back.Validate(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestNumbersThatAreTooLargeAreOutOfRange(t *testing.T) {
	for _, c := range []struct{ field, value string }{
		{"max_attempts", "99999999999999999999"},
		{"max_attempts", "-99999999999999999999"},
		{"max_in_flight", "1e30"},
		{"rate_limit", "1e999"},
		{"ttr", "1e10"},
		{"delay", "-1e400"},
		{"delay", `"9999999h"`},
		{"retry", `["1s","9999999h"]`},
		{"remember", `1e400`},
	} {
		_, err := DecodeTopic("t", []byte(`{"callback_url":"http://h","`+c.field+`":`+c.value+`}`))
		var fe *FieldError
		if !errors.As(err, &fe) || fe.Field != c.field || !fe.OutOfRange || !strings.Contains(fe.Detail(), "range") {
			t.Errorf("%s %s: %v", c.field, c.value, err)
		}
	}
}
