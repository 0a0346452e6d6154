package server_test

import (
	"strings"
	"testing"
)

// malformed are pushes that must be refused and change nothing.
var malformed = []struct {
	name, body string
	status     int
	field      string
	words      []string
}{
	{"nothing", ``, 400, "", []string{"no body"}},
	{"white space", " \n", 400, "", []string{"no body"}},
	{"no JSON", `hello`, 400, "", []string{"invalid character 'h'", "at byte 0"}},
	{"cut off", `{"body":{"a":1}`, 400, "", []string{"unexpected end", "at byte 15"}},
	{"cut off in a string", `{"body":"abc`, 400, "", []string{"unexpected end", "at byte 12"}},
	{"byte order mark", "\ufeff{\"body\":1}", 400, "", []string{`invalid character '\ufeff'`}},
	{"single quotes", `{'body':1}`, 400, "", []string{`invalid character '\''`, "at byte 1"}},
	{"comma at the end", `{"body":1,}`, 400, "", []string{"invalid character ','", "at byte 9"}},
	{"comma at the end of a body", `{"body":[1,]}`, 400, "", []string{"invalid character ']'", "at byte 11"}},
	{"comment", `{"body":1 /* x */}`, 400, "", nil},
	{"text behind", `{"body":1} x`, 400, "", []string{"invalid character 'x' after", "at byte 11"}},
	{"two values", `{"body":1}{"body":2}`, 400, "", []string{"invalid character '{' after"}},
	{"array", `[{"body":1}]`, 400, "", []string{"expected an object", "an array"}},
	{"null", `null`, 400, "", []string{"expected an object"}},
	{"wrong bracket", `{"body":[1}}`, 400, "", nil},
	{"mixed brackets", `{"body":{"a":[1}]}`, 400, "", nil},
	{"leading zero", `{"body":01}`, 400, "", nil},
	{"plus", `{"body":+1}`, 400, "", nil},
	{"bare point", `{"body":.5}`, 400, "", nil},
	{"point without digits", `{"body":1.}`, 400, "", []string{"digit"}},
	{"exponent without digits", `{"body":1e}`, 400, "", []string{"digit"}},
	{"NaN", `{"body":NaN}`, 400, "", nil},
	{"control character", "{\"body\":\"a\nb\"}", 400, "", []string{`'\n' in string`, "control character"}},
	{"NUL", "{\"body\":1\x00}", 400, "", nil},
	{"unknown escape", `{"body":"\x41"}`, 400, "", []string{"escape"}},
	{"short escape", `{"body":"\u12"}`, 400, "", []string{"invalid escape", "at byte 9"}},
	{"bad literal", `{"body":nul}`, 400, "", nil},
	{"invalid UTF-8 in the body", "{\"body\":\"\xff\"}", 400, "", []string{"UTF-8"}},
	{"invalid UTF-8 in a name", "{\"bo\xffdy\":1}", 400, "", []string{"UTF-8"}},
	{"overlong UTF-8", "{\"body\":\"\xc0\xaf\"}", 400, "", []string{"UTF-8"}},
	{"nested too deep", `{"body":` + strings.Repeat("[", 129) + strings.Repeat("]", 129) + `}`, 400, "body",
		[]string{"128"}},
	{"nested absurdly deep", `{"body":` + strings.Repeat(`{"a":`, 40000), 400, "", []string{"depth"}},

	{"no body", `{"id":"x"}`, 400, "body", []string{"required"}},
	{"no body in an empty object", `{}`, 400, "body", []string{"required"}},
	{"unknown field", `{"body":1,"dealy":"1m"}`, 400, "dealy",
		[]string{"dealy", "unknown", "one of id, body, delay, due_at, "}},
	{"a long unknown field, cut between characters", `{"a` + strings.Repeat("é", 60) + `":1}`, 400,
		"a" + strings.Repeat("é", 39) + "…", []string{"unknown"}},
	{"field in capitals", `{"Body":1}`, 400, "Body", []string{"unknown"}},
	{"topic stands in the path", `{"body":1,"topic":"shop.orders"}`, 400, "topic", []string{"unknown"}},
	{"field twice", `{"body":1,"body":2}`, 400, "body", []string{"duplicate field"}},
	{"field twice, escaped", `{"body":1,"b\u006fdy":2}`, 400, "body", []string{"duplicate field"}},

	{"id of a wrong type", `{"body":1,"id":42}`, 400, "id", []string{"must be a string, got a number"}},
	{"id null", `{"body":1,"id":null}`, 400, "id", []string{"must not be null"}},
	{"empty id", `{"body":1,"id":""}`, 400, "id", []string{"empty"}},
	{"id too long", `{"body":1,"id":"` + strings.Repeat("x", 129) + `"}`, 400, "id", []string{"129", "128"}},
	{"id too long in bytes", `{"body":1,"id":"` + strings.Repeat("é", 65) + `"}`, 400, "id", []string{"130"}},
	{"id with a space at its end", `{"body":1,"id":"x "}`, 400, "id", []string{"a space"}},
	{"id with a space at its start", `{"body":1,"id":" x"}`, 400, "id", []string{"a space"}},
	{"id with a line break", `{"body":1,"id":"a\nb"}`, 400, "id", []string{`\n`, "printable"}},
	{"id with CR LF", `{"body":1,"id":"a\r\nX: y"}`, 400, "id", []string{"printable"}},
	{"id with NUL", `{"body":1,"id":"a\u0000"}`, 400, "id", []string{"printable"}},
	{"id with DEL", "{\"body\":1,\"id\":\"a\x7f\"}", 400, "id", []string{"printable"}},
	{"id that turns around", `{"body":1,"id":"a\u202eb"}`, 400, "id", []string{"printable"}},
	{"id with half a character", `{"body":1,"id":"a\ud83d"}`, 400, "id", []string{"surrogate"}},
	{"id with invalid UTF-8", "{\"body\":1,\"id\":\"\xff\"}", 400, "", []string{"UTF-8"}},

	{"delay of a wrong type", `{"body":1,"delay":true}`, 400, "delay", []string{"duration", "a boolean"}},
	{"delay null", `{"body":1,"delay":null}`, 400, "delay", []string{"null"}},
	{"delay without unit", `{"body":1,"delay":"30"}`, 400, "delay", []string{"30m"}},
	{"delay in words", `{"body":1,"delay":"soon"}`, 400, "delay", []string{"soon"}},
	{"delay empty", `{"body":1,"delay":""}`, 400, "delay", nil},
	{"delay NaN", `{"body":1,"delay":"NaN"}`, 400, "delay", []string{"NaN"}},
	{"delay NaN, bare", `{"body":1,"delay":NaN}`, 400, "", nil},
	{"delay Infinity", `{"body":1,"delay":"Infinity"}`, 400, "delay", nil},
	{"delay beyond numbers", `{"body":1,"delay":1e999}`, 422, "delay", nil},
	{"delay negative", `{"body":1,"delay":-1}`, 422, "delay", []string{"between 0s and 10 years"}},
	{"delay negative, text", `{"body":1,"delay":"-5m"}`, 422, "delay", []string{"between 0s", "-5m"}},
	{"delay absurdly far", `{"body":1,"delay":315360001}`, 422, "delay", []string{"10 years"}},
	{"delay absurdly far, text", `{"body":1,"delay":"87601h"}`, 422, "delay", []string{"10 years"}},
	{"delay beyond Go's durations", `{"body":1,"delay":"9999999999h"}`, 422, "delay", nil},
	{"delay of 1e300 seconds", `{"body":1,"delay":1e300}`, 422, "delay", nil},

	{"due_at of a wrong type", `{"body":1,"due_at":[]}`, 400, "due_at", []string{"RFC 3339", "an array"}},
	{"due_at without zone", `{"body":1,"due_at":"2030-01-31T08:00:00"}`, 422, "due_at",
		[]string{"2030-01-31T08:00:00Z"}},
	{"due_at that is no day", `{"body":1,"due_at":"2030-02-30T08:00:00Z"}`, 400, "due_at", nil},
	{"due_at with a fraction of a millisecond", `{"body":1,"due_at":1893456000000.5}`, 400, "due_at",
		[]string{"integer"}},
	{"due_at absurdly far", `{"body":1,"due_at":"2099-01-01T00:00:00Z"}`, 422, "due_at", []string{"10 years"}},
	{"due_at absurdly far, number", `{"body":1,"due_at":99999999999999}`, 422, "due_at", []string{"10 years"}},
	{"due_at beyond integers", `{"body":1,"due_at":1e30}`, 422, "due_at", nil},
	{"delay and due_at", `{"body":1,"delay":"1m","due_at":"2030-01-31T08:00:00Z"}`, 400, "due_at", []string{"delay"}},

	{"priority of a wrong type", `{"body":1,"priority":1}`, 400, "priority", []string{"must be a string"}},
	{"unknown priority", `{"body":1,"priority":"urgent"}`, 400, "priority", []string{"urgent", "high, low, normal"}},
	{"ttr too short", `{"body":1,"ttr":"99ms"}`, 422, "ttr", []string{"100ms"}},
	{"ttr too long", `{"body":1,"ttr":"1h1s"}`, 422, "ttr", []string{"1h"}},
	{"ttr zero", `{"body":1,"ttr":0}`, 422, "ttr", nil},
	{"max_attempts zero", `{"body":1,"max_attempts":0}`, 422, "max_attempts", []string{"1 and 1000"}},
	{"max_attempts too many", `{"body":1,"max_attempts":1001}`, 422, "max_attempts", nil},
	{"max_attempts in parts", `{"body":1,"max_attempts":1.5}`, 400, "max_attempts", []string{"integer"}},
	{"max_attempts as text", `{"body":1,"max_attempts":"3"}`, 400, "max_attempts",
		[]string{"must be an integer, got a string"}},
	{"headers null", `{"body":1,"headers":null}`, 400, "headers", []string{"must not be null"}},
	{"headers in a list", `{"body":1,"headers":["a"]}`, 400, "headers", []string{"got an array"}},
	{"a header twice", `{"body":1,"headers":{"a":"1","a":"2"}}`, 400, "headers", []string{"duplicate"}},
	{"unknown on_duplicate", `{"body":1,"on_duplicate":"ignore"}`, 400, "on_duplicate",
		[]string{"error, keep, replace"}},

	{"body too large", `{"body":"` + strings.Repeat("x", 256<<10) + `"}`, 413, "body", []string{"262144"}},
	{"request too large", `{"body":"` + strings.Repeat("x", 300<<10) + `"}`, 413, "", nil},
}

func TestMalformedPush(t *testing.T) {
	a := newAPI(t)
	for _, tt := range malformed {
		t.Run(tt.name, func(t *testing.T) {
			a.t = t
			a.do("POST", orders, tt.body).problem(tt.status, tt.field, tt.words...)
		})
	}
	if got := a.jobs.changes(); len(got) > 0 {
		t.Errorf("refused pushes changed something: %v", got)
	}
}

// TestMalformedBatch: what is wrong in a push is wrong in a member of a batch, and the other members are stored.
func TestMalformedBatch(t *testing.T) {
	a := newAPI(t)
	for _, tt := range malformed {
		if !strings.HasPrefix(tt.body, "{") || tt.field == "" || tt.name == "topic stands in the path" {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			a.t = t
			bad := strings.Replace(tt.body, "{", `{"topic":"shop.orders",`, 1)
			bad = strings.Replace(bad, ",}", "}", 1)
			good := `{"topic":"shop.orders","id":"good","on_duplicate":"replace","body":1}`
			results, _ := a.do("POST", "/v1/jobs",
				`{"jobs":[`+good+","+bad+","+good+`]}`).want(200).json()["results"].([]any)
			if len(results) != 3 {
				t.Fatalf("%d results", len(results))
			}
			for _, i := range []int{0, 2} {
				if got := results[i].(map[string]any); got["id"] != "good" {
					t.Errorf("neighbour: %v", got)
				}
			}
			problem, _ := results[1].(map[string]any)["error"].(map[string]any)
			if problem["status"] != float64(tt.status) || problem["field"] != tt.field {
				t.Errorf("%v, want %d %s", problem, tt.status, tt.field)
			}
		})
	}
}
