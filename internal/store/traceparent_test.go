package store_test

import (
	"strings"
	"testing"

	"github.com/wakecall/wakecall/internal/store"
)

// TestTraceparents: what is kept of a traceparent header.
func TestTraceparents(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for text, want := range map[string]string{
		good:                                 good,
		good[:53] + "00":                     good[:53] + "00",
		"cc" + good[2:]:                      good,
		"cc" + good[2:] + "-what-comes":      good,
		"":                                   "",
		good + "-what-comes":                 "",
		good + " ":                           "",
		"cc" + good[2:] + "x":                "",
		"ff" + good[2:]:                      "",
		good[:54]:                            "",
		strings.ToUpper(good):                "",
		strings.ReplaceAll(good, "-", "_"):   "",
		"00-" + good[4:19] + "-" + good[19:]: "",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01": "",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01": "",
	} {
		if got := store.ParseTraceparent(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
