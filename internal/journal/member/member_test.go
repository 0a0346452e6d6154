package member

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestMembersMakeAnObject(t *testing.T) {
	at := time.Date(2026, 3, 9, 8, 7, 6, 5_999_999, time.FixedZone("", 3600))
	b := []byte(`{`)
	b = Text(b, "text", "a\"\\\n<\x00\xff")
	b = Text(b, "bytes", []byte("é"))
	b = Int(b, "int", -7)
	b = Float(b, "float", 0.25)
	b = Instant(b, "at", at)
	b = Raw(b, "raw", []byte(`{"x":[]}`))
	b = Value(b, "value", map[string]string{"k": "v\xff"})
	b = append(b, '}')
	want := `{"text":"a\"\\\n<\u0000` + "\ufffd" + `","bytes":"é","int":-7,"float":0.25,"at":"2026-03-09T07:07:06.005Z",` +
		`"raw":{"x":[]},"value":{"k":"v` + "\ufffd" + `"}}`
	if string(b) != want {
		t.Errorf("%s\nwant\n%s", b, want)
	}
}

// Whatever a string contains, a JSON reader gets it back.
func TestAnyTextIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := map[string]string{"a": rapid.String().Draw(t, "a"), "b": rapid.String().Draw(t, "b")}
		b := Text(Text([]byte("{"), "a", want["a"]), "b", []byte(want["b"]))
		var got map[string]string
		if err := json.Unmarshal(append(b, '}'), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%s is read as %q (%v), want %q", b, got, err, want)
		}
	})
}
