package store_test

import (
	"strings"
	"testing"

	"github.com/wakecall/wakecall/internal/store"
)

// TestIDsAreVisible: two ids that look the same are the same.
func TestIDsAreVisible(t *testing.T) {
	for _, id := range []string{"order-42", "a b", "漢字 😀", "é", "e\u0301", "\u0645", strings.Repeat("é", 64)} {
		if err := store.CheckID(id); err != nil {
			t.Errorf("%+q: %v", id, err)
		}
	}
	for _, hidden := range "\u00ad\u034f\u115f\u1160\u17b4\u180b\u200b\u200d\u2060\u2064\u3164\ufe00\ufe0f\ufeff\uffa0" +
		"\uffff\U0001d173\U000e0001\U000e0041\U000e0100\U000e0fff" {
		if store.CheckID("a"+string(hidden)+"b") == nil {
			t.Errorf("%+q is accepted", hidden)
		}
	}
}

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
