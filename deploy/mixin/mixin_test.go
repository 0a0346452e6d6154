// Package mixin tests the rendered alerts, rules and boards.
package mixin

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/wakecall/wakecall/test/harness/process"
	"github.com/wakecall/wakecall/test/metricspage"
)

type rule struct {
	Alert, Record, Expr string
	Annotations         map[string]string
	Labels              map[string]string
}

// rules returns the rules of a rendered file.
func rules(t *testing.T, file string) (list []rule) {
	t.Helper()
	var content struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal(read(t, file), &content); err != nil {
		t.Fatal(err)
	}
	for _, g := range content.Groups {
		list = append(list, g.Rules...)
	}
	if len(list) == 0 {
		t.Fatalf("%s has no rules", file)
	}
	return list
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestAlertsFireAsTheyShould, by the series of tests.yaml, which have each alert.
func TestAlertsFireAsTheyShould(t *testing.T) {
	t.Parallel()
	out, err := exec.Command(process.Need(t, "promtool", "prometheus"), "test", "rules", "tests.yaml").CombinedOutput()
	if err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
	tests := string(read(t, "tests.yaml"))
	for _, r := range rules(t, "rendered/alerts.yaml") {
		if !strings.Contains(tests, "\n  - name: "+r.Alert+"\n") {
			t.Errorf("tests.yaml does not test %s", r.Alert)
		}
	}
}

// TestEveryAlertHasARunbook to which it leads, and every runbook an alert.
func TestEveryAlertHasARunbook(t *testing.T) {
	t.Parallel()
	books := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^### (\w+)$`).FindAllStringSubmatch(
		string(read(t, "../../docs/operations/runbooks.md")), -1) {
		books[m[1]] = true
	}
	alerts := map[string]bool{}
	for _, r := range rules(t, "rendered/alerts.yaml") {
		alerts[r.Alert] = true
		if !strings.HasSuffix(r.Annotations["runbook_url"], "/docs/operations/runbooks.md#"+strings.ToLower(r.Alert)) {
			t.Errorf("%s leads to %q", r.Alert, r.Annotations["runbook_url"])
		}
		if s := r.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s has the severity %q", r.Alert, s)
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s says too little: %q", r.Alert, r.Annotations)
		}
	}
	if !maps.Equal(books, alerts) {
		t.Errorf("runbooks: %q\nalerts: %q", slices.Sorted(maps.Keys(books)), slices.Sorted(maps.Keys(alerts)))
	}
}

var (
	metricName = regexp.MustCompile(`\bwakecall_\w+`)
	recorded   = regexp.MustCompile(`\bwakecall:[\w:]+`)
	derived    = regexp.MustCompile(`_(bucket|count|sum)$`)
)

// TestExpressionsUseMetricsThatExist, or that a rule records.
func TestExpressionsUseMetricsThatExist(t *testing.T) {
	t.Parallel()
	page := metricspage.Read(t)
	records := map[string]bool{}
	var list []string
	for _, r := range append(rules(t, "rendered/rules.yaml"), rules(t, "rendered/alerts.yaml")...) {
		records[r.Record] = true
		list = append(list, r.Expr)
	}
	for _, b := range boards(t) {
		list = append(list, b.expressions()...)
	}
	for _, expr := range list {
		for _, name := range metricName.FindAllString(expr, -1) {
			if page[name].Type == "" && page[derived.ReplaceAllString(name, "")].Type != "histogram" {
				t.Errorf("%s does not exist, but is used in %s", name, expr)
			}
		}
		for _, name := range recorded.FindAllString(expr, -1) {
			if !records[name] {
				t.Errorf("no rule records %s, which is used in %s", name, expr)
			}
		}
	}
}

type source struct{ Type, UID string }

type board struct {
	UID, Title, Description string
	SchemaVersion           int
	Links                   []struct{ Type string }
	Templating              struct {
		List []struct {
			Name, Type string
			Query      any
		}
	}
	Panels []panel
}

type panel struct {
	ID                       int
	Type, Title, Description string
	Datasource               source
	GridPos                  struct{ X, Y, W, H int }
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []struct {
		Expr, RefID string
		Datasource  source
	}
}

func boards(t *testing.T) (list []board) {
	t.Helper()
	files, err := filepath.Glob("rendered/dashboards/*.json")
	if err != nil || len(files) != 2 {
		t.Fatalf("the boards are %q, %v", files, err)
	}
	for _, file := range files {
		var b board
		if err := json.Unmarshal(read(t, file), &b); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		list = append(list, b)
	}
	return list
}

func (b *board) expressions() (list []string) {
	for _, p := range b.Panels {
		for _, x := range p.Targets {
			list = append(list, x.Expr)
		}
	}
	for _, v := range b.Templating.List {
		if q, ok := v.Query.(map[string]any); ok {
			list = append(list, q["query"].(string))
		}
	}
	return list
}

// TestBoardsAreComplete: every panel has what Grafana needs, says which question it answers, and has a place of its own.
func TestBoardsAreComplete(t *testing.T) {
	t.Parallel()
	theSource := source{"prometheus", "${datasource}"}
	for _, b := range boards(t) {
		if b.UID == "" || b.Title == "" || b.Description == "" || b.SchemaVersion < 36 || len(b.Links) == 0 ||
			b.Templating.List[0].Type != "datasource" || b.Templating.List[1].Name != "installation" {
			t.Errorf("%s lacks something: %+v", b.Title, b)
		}
		ids, taken := map[int]bool{}, map[[2]int]string{}
		for _, p := range b.Panels {
			if ids[p.ID] || p.ID == 0 || p.Type == "" || p.Title == "" || p.Description == "" || len(p.Targets) == 0 ||
				p.FieldConfig.Defaults.Unit == "" || p.Datasource != theSource {
				t.Errorf("%s, panel %q lacks something: %+v", b.Title, p.Title, p)
			}
			ids[p.ID] = true
			for _, x := range p.Targets {
				if x.Datasource != theSource || x.RefID == "" || !strings.Contains(x.Expr, `"$installation"`) {
					t.Errorf("%s, panel %q: %+v", b.Title, p.Title, x)
				}
			}
			at := p.GridPos
			for x := at.X; x < at.X+at.W; x++ {
				for y := at.Y; y < at.Y+at.H; y++ {
					if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
						t.Fatalf("%s: the panel %q covers %q, or is outside", b.Title, p.Title, other)
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
		}
	}
}
