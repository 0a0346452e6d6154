package conf

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// Errors are all problems of a configuration, in the order of file, environment, flags and contradictions. Each names
// the file and line, the variable or the flag, the key, its value without passwords, and a remedy.
type Errors []string

func (e *Errors) Error() string {
	if len(*e) == 1 {
		return "invalid configuration: " + (*e)[0]
	}
	return fmt.Sprintf("invalid configuration, %d problems:\n  %s", len(*e), strings.Join(*e, "\n  "))
}

// suggest returns a hint at the name closest to a misspelled one.
func suggest(name string, names []string) string {
	const longest = 64 // the cost of a distance is the product of the lengths
	if len(name) <= longest {
		distance := func(n string) int { return levenshtein.ComputeDistance(name, n) }
		best := slices.MinFunc(names, func(a, b string) int { return distance(a) - distance(b) })
		if distance(best) <= max(2, len(name)/3) {
			return "; did you mean " + best + "?"
		}
	}
	return ": `wakecall config --reference` prints every key"
}
