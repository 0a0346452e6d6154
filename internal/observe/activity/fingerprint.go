package activity

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Parts that differ between errors of the same kind: ids and numbers.
var (
	hexes   = regexp.MustCompile(`\b[0-9a-fA-F]{8,}(-[0-9a-fA-F]{4,})*\b`)
	numbers = regexp.MustCompile(`\d+([.:,]\d+)*`)
	spaces  = regexp.MustCompile(`\s+`)
)

const maxFingerprint = 160

// Fingerprint returns an error's text without the parts that differ between jobs. It keeps the status of a response:
// 500 and 503 are two kinds.
func Fingerprint(text string) string {
	status := ""
	if _, after, found := strings.Cut(text, "answered "); found && len(after) >= 3 {
		status = after[:3]
	}
	text = hexes.ReplaceAllString(text, "#")
	text = numbers.ReplaceAllString(text, "#")
	text = spaces.ReplaceAllString(strings.TrimSpace(text), " ")
	if status != "" {
		text = strings.Replace(text, "answered #", "answered "+status, 1)
	}
	return clip(text, maxFingerprint)
}

// clip shortens a text to at most n bytes of valid UTF-8.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// inOrder merges attempts in the order of their start.
func inOrder(lists ...[]Attempt) []Attempt {
	all := slices.Concat(lists...)
	slices.SortStableFunc(all, func(a, b Attempt) int { return cmp.Compare(a.StartedAt, b.StartedAt) })
	return all
}
