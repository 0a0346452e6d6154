package printable

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestTexts(t *testing.T) {
	for _, tt := range []struct{ name, got, want string }{
		{"a line has no breaks", Line("a\nb\x1bc\u202ed"), "a b c\ufffdd"},
		{"lines keep breaks and tabs", Lines("a\n\tb\x1bc"), "a\n\tb\ufffdc"},
		{"bytes", Bytes(1023), "1023 B"},
		{"kibibytes", Bytes(1536), "1.5 KiB"},
		{"more than tebibytes", Bytes(5 << 50), "5120.0 TiB"},
		{"microseconds", Duration(1234567 * time.Nanosecond), "1.23ms"},
		{"milliseconds", Duration(12345678 * time.Nanosecond), "12ms"},
		{"seconds", Duration(12345 * time.Millisecond), "12.3s"},
		{"an hour", Duration(time.Hour), "1h"},
		{"an hour and a second", Duration(time.Hour + time.Second), "1h0m1s"},
		{"one", Count(1, "job"), "1 job"},
		{"none", Count(0, "job"), "0 jobs"},
		{"an error", Error(errors.New("a\n\tb")), "a b"},
		{"a short text", Clip("abc", 3), "abc"},
		{"a long text", Clip("abcd", 3), "abc…"},
		{"a long text cut in a character", Clip("abäc", 3), "ab…"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, tt.got, tt.want)
		}
	}
}

func TestJSONKeepsItsMeaning(t *testing.T) {
	const text = "a\u2028b\u202ec\u0085d\x7fe"
	var out bytes.Buffer
	if err := json.NewEncoder(JSON{&out}).Encode(text); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsFunc(strings.TrimSuffix(out.String(), "\n"), Steers) {
		t.Errorf("%q has a control character", out.String())
	}
	var back string
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back != text {
		t.Errorf("%q, %v", back, err)
	}
}
