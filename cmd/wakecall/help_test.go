package main

import (
	"strings"
	"testing"
)

// TestHelpNamesOneDefault of a duration, not also that of the flag.
func TestHelpNamesOneDefault(t *testing.T) {
	if got := wakecall(t, nil, "", "push", "--help"); strings.Contains(got.out, "(default 0s)") ||
		!strings.Contains(got.out, "(default: the topic's)") {
		t.Error(got.out)
	}
}
