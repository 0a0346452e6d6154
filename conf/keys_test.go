package conf

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// Every field of the struct must be in the table of keys, so that the test above covers it.
func TestEveryFieldIsAKey(t *testing.T) {
	fields := leaves(reflect.TypeFor[Config](), "")
	var listed []string
	for _, k := range keys {
		listed = append(listed, k.Path)
	}
	slices.Sort(fields)
	slices.Sort(listed)
	if !slices.Equal(fields, listed) {
		t.Errorf("the fields are\n%v\nthe keys are\n%v", fields, listed)
	}
}

func leaves(typ reflect.Type, above string) (paths []string) {
	for f := range typ.Fields() {
		switch path := above + f.Tag.Get("key"); {
		case !f.IsExported():
		case f.Type.Kind() == reflect.Struct:
			paths = append(paths, leaves(f.Type, path+".")...)
		default:
			paths = append(paths, path)
		}
	}
	return paths
}

func TestDefaultsAreValid(t *testing.T) {
	l := newLoader(nil)
	l.crossCheck()
	if len(l.problems) > 0 {
		t.Fatal(&l.problems)
	}
	c := Default()
	if c.Server.MaxBody != 256<<10 || c.Journal.Keep != 7*24*time.Hour || c.Priorities != (Priorities{5, 3, 2}) ||
		c.Redis.Nodes != nil || c.Timers != 1 || c.Dispatchers != 2 || c.Callback.Networks != "any" {
		t.Errorf("got %+v", c)
	}
}

func TestKeys(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range Keys(gateways) {
		if !strings.HasSuffix(k.Help, ".") {
			t.Errorf("%s has the help %q", k.Path, k.Help)
		}
		if seen[k.Env()] || seen[k.Flag()] {
			t.Errorf("%s shares its variable or flag", k.Path)
		}
		seen[k.Env()], seen[k.Flag()] = true, true
	}
	if !seen["WAKECALL_SERVER_MAX_BODY"] || !seen["shutdown-timeout"] {
		t.Error("the names of variables or flags have changed")
	}
}

func TestTheHelpOfAKeyIsASummaryAndDetails(t *testing.T) {
	k := Key{Help: "Callbacks at once. More wait.", Type: number(1, 9)}
	if k.Summary() != "Callbacks at once (1 to 9)" || k.Details() != "More wait." {
		t.Errorf("got %q and %q", k.Summary(), k.Details())
	}
	if k := (Key{Help: "Time limit."}); k.Summary() != "Time limit" || k.Details() != "" {
		t.Errorf("got %q and %q", k.Summary(), k.Details())
	}
}
