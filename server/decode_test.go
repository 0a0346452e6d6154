package server

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/wakecall/wakecall/test/race"
)

// FuzzDecodePush compares decoding with encoding/json: accepted input must be JSON, the body's bytes must be unchanged,
// and no input may cause a panic.
func FuzzDecodePush(f *testing.F) {
	for _, s := range []string{
		`{"id":"x","body":{"a":[1,2,{"b":null}]},"delay":"1m","priority":"low"}`,
		`{"body":"\ud83d\ude00","due_at":1893456000000}`,
		`{"body":1e5,"ttr":0.5,"max_attempts":3,"on_duplicate":"keep"}`, `{"body":[[[[]]]]}`, `{"body":"\u00`,
		"{\"body\":\"\xff\"}", `{`, ``,
		`{"body":true,"delay":1,"due_at":"2030-01-01T00:00:00Z"}`, `{"b\u006fdy":-0.0E-1}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var r memberRequest
		if err := decode(data, &r); err != nil {
			p, ok := err.(*Problem)
			if !ok || p.Detail == "" || p.Status != 400 && p.Status != 422 {
				t.Fatalf("refused with %#v", err)
			}
			return
		}
		if !json.Valid(data) || !utf8.Valid(data) {
			t.Fatalf("accepted %q", data)
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(data, &members); err != nil {
			t.Fatal(err)
		}
		if got := r.Body.of(data); r.Body.given && !bytes.Equal(got, members["body"]) {
			t.Fatalf("body %q, want %q", got, members["body"])
		}
		var id string
		if err := json.Unmarshal(members["id"], &id); members["id"] != nil && (err != nil || id != string(r.ID.value)) {
			t.Fatalf("id %q, want %q (%v)", r.ID.value, id, err)
		}
	})
}

// FuzzBatch: splitting a batch accepts only JSON that encoding/json accepts, too.
func FuzzBatch(f *testing.F) {
	for _, s := range []string{`{"jobs":[{"topic":"a","body":1},2,"x"]}`, `{"jobs":[]}`, `{"jobs":[[[]],{"a":{}}]}`,
		`{"jobs":[1,]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var b batch
		if err := b.split(data, 100); err != nil {
			return
		}
		if !json.Valid(data) {
			t.Fatalf("accepted %q", data)
		}
		for _, m := range b.members {
			if !json.Valid(m.of(data)) {
				t.Fatalf("member %q", m.of(data))
			}
		}
	})
}

// FuzzAnswer: whatever an endpoint answered, the document stays JSON with the same meaning.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{"", "a\"\\\n\r\t\x00\x1f\x7f", "é€😀", "\xff\xc0\xaf", "\u2028</script>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		text, err := jsonv2.Marshal(attemptView{Answer: s}, answering)
		if err != nil {
			t.Fatal(err)
		}
		var got struct{ Answer string }
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if want := string([]rune(s)); got.Answer != want {
			t.Fatalf("%q, want %q", got.Answer, want)
		}
	})
}

// TestDecodeAgrees with encoding/json about what is JSON, up to the depth that a body may have.
func TestDecodeAgrees(t *testing.T) {
	for _, s := range []string{
		`0`, `-0`, `1.5e+3`, `"a"`, `[]`, `{}`, `[1,"a",{"b":[true,false,null]}]`, ` [ ] `, `{"a":{}}`, `{"a":1,"a":2}`,
		`"\ud800"`,
		`01`, `1.`, `.1`, `-`, `+1`, `1e`, `tru`, `nulll`, `[1 2]`, `[,]`, `{"a"}`, `{"a":}`, `{a:1}`, `{"a":1,}`,
		`[1,]`,
		`"\q"`, `"\u12g4"`, "\"\t\"", `]`, `}`, `{]`, `[}`, `"`, `[[]`, ``, strings.Repeat("[", 129),
	} {
		var r pushRequest
		data := []byte(`{"body":` + s + `}`)
		err := decode(data, &r)
		if err == nil && string(r.Body.of(data)) != strings.TrimSpace(s) {
			t.Errorf("%s: read as %s", s, r.Body.of(data))
		}
		if valid := json.Valid([]byte(s)); (err == nil) != valid {
			t.Errorf("%s: %v, valid %v", s, err, valid)
		}
	}
	for depth, ok := range map[int]bool{maxDepth: true, maxDepth + 1: false} {
		if isPortable([]byte(strings.Repeat("[", depth)+strings.Repeat("]", depth))) != ok {
			t.Errorf("%d levels: want %v", depth, ok)
		}
	}
}

func TestDecodeAllocates(t *testing.T) {
	data := []byte(`{"id":"order-0000000000000042","body":{"order":42,"text":"some text"},` +
		`"delay":"30m","priority":"high"}`)
	allocs := testing.AllocsPerRun(100, func() {
		var r pushRequest
		if err := decode(data, &r); err != nil {
			t.Fatal(err)
		}
	})
	limit := 4.0 // the id, two short strings and the input itself
	if race.Enabled {
		limit++
	}
	if allocs > limit {
		t.Errorf("%v allocations a push", allocs)
	}
}

// TestInstantsHaveTheirMilliseconds: always three digits, even if they are 0, and always UTC.
func TestInstantsHaveTheirMilliseconds(t *testing.T) {
	zone := time.FixedZone("", 2*60*60)
	for _, at := range []time.Time{
		time.UnixMilli(0), time.UnixMilli(1), time.UnixMilli(1795305600020), time.UnixMilli(1795305600999).In(zone),
		time.UnixMilli(-1), time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, zone), {},
	} {
		want := `"` + at.UTC().Format("2006-01-02T15:04:05.000Z") + `"`
		if got, err := jsonv2.Marshal(at, answering); err != nil || string(got) != want {
			t.Errorf("%v is written as %s; want %s (%v)", at, got, want, err)
		}
	}
}
