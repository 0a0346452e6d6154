package document

import (
	"runtime"
	"strings"
	"testing"
)

func TestEveryDocumentIsRead(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "",
		"# only a comment\n":              "",
		"a\n---\n# Source\n---\nb\n":      "a|b",
		"a\n---\n---\nb":                  "a|b",
		"# c\n---\n# d\n---\nb\n---\nc\n": "b|c",
		"---\na\n...\n---\n...\n# x\n---\r\nb\r\n": "a|b",
		"--- # Source\n--- a\n---\tb\n--- #\n":     "a|b",
		"%YAML 1.2\n# x\n---\na\n---\nb\n":         "a|b",
		"|\n  x\n  ---\n---\n---b\n":               "|\n  x\n  ---|---b",
		"{\"a\": \"---\"}":                         `{"a": "---"}`,
		"\ufeffa\n---\nb":                          "a|b",
		"\xff\xfea\x00\n\x00":                      "a",
		"\xfe\xff\x00a":                            "a",
	} {
		docs, err := YAML([]byte(text))
		var got []string
		for _, d := range docs {
			got = append(got, d.String())
		}
		if err != nil || strings.Join(got, "|") != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

func TestPositionsAreThoseOfTheFile(t *testing.T) {
	docs, err := YAML([]byte("# x\n---\n---\na: 1\n---\n\nb: 2\n"))
	if err != nil || len(docs) != 2 || docs[1].GetToken().Position.Line != 7 {
		t.Errorf("%v, %v", docs, err)
	}
	if _, err := YAML([]byte("a: 1\n---\n# x\n---\nb: [\n")); err == nil || !strings.Contains(err.Error(), "line 5: ") {
		t.Errorf("%v", err)
	}
}

// TestADeepFileTakesLittleMemory: 39 KB took 3.25 GB.
func TestADeepFileTakesLittleMemory(t *testing.T) {
	for _, deep := range []string{strings.Repeat("[", 39<<10), strings.Repeat("{a: ", 10<<10), strings.Repeat("- ", 20<<10),
		strings.Repeat("? ", 20<<10), strings.Repeat("- {a: [", 5<<10)} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := YAML([]byte(deep))
		runtime.ReadMemStats(&after)
		if used := (after.TotalAlloc - before.TotalAlloc) >> 20; err == nil || used > 64 {
			t.Errorf("%.8s…: %d MiB, %v", deep, used, err)
		}
	}
	wide := strings.Repeat("- a: [{b: [1, 2]}]\n", 1000)
	if _, err := YAML([]byte(wide)); err != nil {
		t.Error(err)
	}
}
