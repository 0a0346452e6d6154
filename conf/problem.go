package conf

import (
	"fmt"
	"strings"
)

// Problem is one thing that is wrong with the configuration.
type Problem struct {
	Where  string // FILE:LINE, the variable, or --flag
	Key    string // empty where no key is concerned
	Value  string // passwords are masked; empty where none is concerned
	Detail string // what is wrong and the way out
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

// Errors are all problems of a configuration, in the order of file, environment, flags and contradictions.
type Errors []Problem

func (e *Errors) Error() string {
	if len(*e) == 1 {
		return "the configuration is wrong: " + (*e)[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "the configuration has %d problems:", len(*e))
	for _, p := range *e {
		b.WriteString("\n  " + p.String())
	}
	return b.String()
}

// didYouMean suggests the candidate closest to a misspelt name, or nothing when none is close.
func didYouMean(name string, candidates []string) string {
	const tooLong = 64 // nobody misspells like that, and the distance costs the product of the lengths
	if len(name) > tooLong {
		return ""
	}
	best, least := "", 1+max(2, len(name)/3)
	for _, c := range candidates {
		if d := distance(strings.ToLower(name), strings.ToLower(c)); d < least {
			best, least = c, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

// suggestKey is didYouMean for keys; it also knows a key whose section was forgotten or misplaced.
func suggestKey(key string, keys []string) string {
	if s := didYouMean(key, keys); s != "" {
		return s
	}
	last := key[strings.LastIndexByte(key, '.')+1:]
	var same []string
	for _, k := range keys {
		if k == last || strings.HasSuffix(k, "."+last) {
			same = append(same, k)
		}
	}
	if len(same) == 0 {
		return ": the reference lists every key (conf/wakecall.yaml)"
	}
	return "; did you mean " + strings.Join(same, " or ") + "?"
}

// distance counts the letters to insert, delete or change to get from a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
