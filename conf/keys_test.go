package conf

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestReferenceListsEveryKeyWithItsDefault(t *testing.T) {
	file := parseFile("wakecall.yaml", Reference)
	if len(file.problems) > 0 {
		t.Fatal(file.problems)
	}
	if len(file.found) != len(keys) {
		t.Errorf("the reference has %d keys, the table %d", len(file.found), len(keys))
	}
	for i, a := range file.found {
		if i < len(keys) && (a.key != keys[i].Path || a.text != keys[i].Default) {
			t.Errorf("%s: the reference says %s: %q, the table %s: %q",
				a.where, a.key, a.text, keys[i].Path, keys[i].Default)
		}
	}
}

// Every field of the struct must be in the table of keys, so that the test above covers it.
func TestEveryFieldIsAKey(t *testing.T) {
	fields := leaves(reflect.TypeFor[Config](), "")
	listed := paths()
	slices.Sort(fields)
	slices.Sort(listed)
	if !slices.Equal(fields, listed) {
		t.Errorf("the fields are\n%v\nthe keys are\n%v", fields, listed)
	}
}

func leaves(typ reflect.Type, above string) (paths []string) {
	for i := range typ.NumField() {
		f := typ.Field(i)
		switch path := above + f.Tag.Get("koanf"); {
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
	l := newLoader()
	l.crossCheck()
	if len(l.problems) > 0 {
		t.Fatal(&l.problems)
	}
	c := Default()
	if c.Server.MaxBody != 256*KiB || c.Journal.Keep != 7*24*time.Hour || c.Priorities != (Priorities{5, 3, 2}) ||
		c.Redis.Nodes != nil || c.Timers != 1 || c.Dispatchers != 2 || c.Callback.Networks != "any" {
		t.Errorf("got %+v", c)
	}
}

func TestKeys(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range Keys() {
		if len(k.Doc) < 10 || strings.Contains(k.Doc, ". ") {
			t.Errorf("%s has the help %q", k.Path, k.Doc)
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
