// Package metricspage reads the table of metrics in docs/reference/metrics.md, which tests compare with the code.
package metricspage

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const page = "docs/reference/metrics.md"

// Metric is a row of the table.
type Metric struct {
	Type   string   // counter, gauge, histogram
	Labels []string // sorted, without process, which every metric has
}

var row = regexp.MustCompile("(?m)^\\| `(wakecall_[a-z_]+)` \\| ([a-z]+) \\|([^|]*)\\| .*\\w.* \\|$")

// Read returns the metrics of the page by name.
func Read(t testing.TB) map[string]Metric {
	t.Helper()
	text, err := os.ReadFile(page)
	for up := ".."; err != nil && len(up) < 20; up += "/.." { // tests run in their package's folder
		text, err = os.ReadFile(filepath.Join(up, page))
	}
	if err != nil {
		t.Fatal(err)
	}
	metrics := map[string]Metric{}
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		if _, twice := metrics[m[1]]; twice {
			t.Errorf("%s has %s twice", page, m[1])
		}
		metrics[m[1]] = Metric{Type: m[2], Labels: Labels(strings.FieldsFunc(m[3], func(r rune) bool {
			return r == '`' || r == ',' || r == ' '
		}))}
	}
	return metrics
}

// Labels returns labels as a Metric has them.
func Labels(names []string) []string {
	names = slices.DeleteFunc(slices.Sorted(slices.Values(names)), func(s string) bool { return s == "process" })
	return append([]string{}, names...)
}
