package conf

import (
	"fmt"
	"strings"

	"github.com/agnivade/levenshtein"
)

// Problem is one error in the configuration.
type Problem struct {
	Where  string // FILE:LINE, the variable, or --flag
	Key    string // empty if the problem concerns no key
	Value  string // passwords are masked; empty if the problem concerns no value
	Detail string // the error and a remedy
}

func (p Problem) String() string {
	s := p.Where
	if p.Key != "" {
		s += ": " + p.Key
	}
	if p.Value != "" {
		s += fmt.Sprintf(": %q", p.Value)
		return s + " " + p.Detail
	}
	return s + ": " + p.Detail
}

// Errors contains all problems of a configuration, in the order of file, environment, flags and contradictions.
type Errors []Problem

func (e *Errors) Error() string {
	if len(*e) == 1 {
		return "invalid configuration: " + (*e)[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "invalid configuration, %d problems:", len(*e))
	for _, p := range *e {
		b.WriteString("\n  " + p.String())
	}
	return b.String()
}

// suggest returns the candidate closest to a misspelled name, or a hint at the reference when none is close.
func suggest(name string, candidates []string) string {
	if s := didYouMean(name, candidates); s != "" {
		return s
	}
	return ": conf/wakecall.yaml lists every key"
}

// didYouMean returns the candidate closest to a misspelled name, or nothing when none is close. A key with a missing or
// wrong section counts as close.
func didYouMean(name string, candidates []string) string {
	const tooLong = 64 // the cost of computing a distance is the product of the lengths
	if len(name) > tooLong {
		return ""
	}
	best, least := "", 1+max(2, len(name)/3)
	for _, c := range candidates {
		d := min(distance(name, c), 2+distance(lastPart(name), lastPart(c)))
		if d < least || d == least && best != "" && c < best {
			best, least = c, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

func lastPart(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

func distance(a, b string) int {
	return levenshtein.ComputeDistance(strings.ToLower(a), strings.ToLower(b))
}
