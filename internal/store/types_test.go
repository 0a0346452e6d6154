package store_test

import (
	"testing"

	"github.com/wakecall/wakecall/internal/store"
)

func TestOnlyJSONIsTakenForJSON(t *testing.T) {
	for body, want := range map[string]string{
		`{"a":[1,"é"]}`: "", "7": "", `"x"`: "", "": "application/octet-stream", "x": "application/octet-stream",
		"{}{}": "application/octet-stream", "\"\xff\"": "application/octet-stream",
	} {
		if got := store.TypeOf([]byte(body)); got != want {
			t.Errorf("TypeOf(%q) = %q, want %q", body, got, want)
		}
	}
}
