package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/gateway/importer"
)

// TestAWrongSourceOfAnImportIsNamed with the error and the expected form, and without its password.
func TestAWrongSourceOfAnImportIsNamed(t *testing.T) {
	t.Chdir(t.TempDir())
	const form = " must be a Redis URL"
	for args, want := range map[string]string{
		"lmstfy --redis foo": `--redis "foo"` + form,
		"lmstfy --redis redis://127.0.0.1:1 --admin-redis http://h": `--admin-redis "http://h"` + form,
		"lmstfy --redis redis://127.0.0.1:1":                        `--admin-redis is required: `,
		"grape --redis redis://:hunt%er2@h --dry-run":               `--redis "redis://:<secret>@h"` + form,
		"delayqueue --redis redis://:hunter2@h/x":                   `--redis "redis://:<secret>@h/x"` + form,
		"delayqueue --redis :hunter2@h:1":                           `--redis ":<secret>@h:1"` + form,
		"beanstalk --addr foo":                                      `--addr "foo": connect to beanstalkd: `,
		"phpdq --mysql mysql://u:hunter2@tcp(127.0.0.1:1)/dq":       `database of php-delayqueue: dial tcp 127.0.0.1:1: `,
		"phpdq --mysql mysql://u:hunter2@h/dq":                      `of php-delayqueue: mysql://u:<secret>@h/dq: expected`,
		"phpdq --mysql foo":                                         `--mysql "foo" must be mysql://user:password@`,
		"phpdq --mysql root:hunter2@tcp(h)/dq":                      `--mysql "root:<secret>@tcp(h)/dq" must be mysql://`,
	} {
		r := here(nil, "", append([]string{"import"}, strings.Fields(args)...)...)
		if r.code == 0 || !strings.Contains(r.err, want) || strings.Contains(r.err, "hunt") {
			t.Errorf("%s: exit %d, %s", args, r.code, r.err)
		}
	}
}

// TestAFailedDryRunReportsNoImportedJobs as imported, because it imports none.
func TestAFailedDryRunReportsNoImportedJobs(t *testing.T) {
	r := wakecall(t, nil, "", "import", "grape", "--redis", "redis://127.0.0.1:1", "--dry-run")
	if r.code == 0 || !strings.Contains(r.err, "connection refused") || strings.Contains(r.err, "imported") {
		t.Errorf("exit %d, %s", r.code, r.err)
	}
}

// TestLinesOfTheLogBeginBelowTheProgressBar, which is shown again below them.
func TestLinesOfTheLogBeginBelowTheProgressBar(t *testing.T) {
	out := &strings.Builder{}
	s := &barScreen{out: out}
	fmt.Fprintln(s, "first")
	s.show("10 %")
	s.show("20 %")
	fmt.Fprintln(s, "second")
	fmt.Fprintln(s, "third")
	s.show("30 %")
	s.end()
	s.end()
	if got, want := out.String(), "first\n\r10 %\r20 %\nsecond\nthird\n\r30 %\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestTheExamplesOfImportsWork: they name all flags that are required.
func TestTheExamplesOfImportsWork(t *testing.T) {
	t.Chdir(t.TempDir())
	host := regexp.MustCompile(`old:\d+`)
	for path, text := range examples {
		if !strings.HasPrefix(path, "wakecall import ") {
			continue
		}
		text = strings.ReplaceAll(host.ReplaceAllString(text, "127.0.0.1:1"), "'", "")
		r := here(nil, "", strings.Fields(text)[1:]...)
		if !strings.Contains(r.err, "connection refused") {
			t.Errorf("%s: %s", text, r.err)
		}
	}
}

// TestASummaryHasWhatStays in the old system.
func TestASummaryHasWhatStays(t *testing.T) {
	out := &strings.Builder{}
	if err := importTable(out, &importer.Report{Queues: 7, Dead: 30}, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`queues with ready jobs +7`, `dead, not imported +30`} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}
