package web

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// keyOf finds t "section.key" in templates, but not keys that are composed at run time.
var keyOf = regexp.MustCompile(`(?:\bt|"(?:Label|Help)") "([a-z_]+\.[a-z0-9_.]+)"`)

var iconOf = regexp.MustCompile(`(?:icon|"Icon") "([a-z0-9-]+)"`)

// TestACountOfOneReadsAsOne: every text that counts things has a form for a single one.
func TestACountOfOneReadsAsOne(t *testing.T) {
	all, err := LoadTexts()
	if err != nil {
		t.Fatal(err)
	}
	counts := regexp.MustCompile(`\{0\} (more |dead |ready |running |delayed )?` +
		`(jobs|topics|calls|callbacks|failures|fields|secrets|connections)( |\.|\)|:|$)`)
	limits := []string{"forecast.some", "tasks.sampled", "task.full"} // never one
	for key, text := range all["en"] {
		if counts.MatchString(text) && !all["en"].Has(key+".one") && !slices.Contains(limits, key) {
			t.Errorf("%s has no text for one: %s", key, text)
		}
	}
}

func TestEveryTextIsInEveryLanguage(t *testing.T) {
	all, err := LoadTexts()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range Languages {
		for _, b := range Languages {
			for key, text := range all[a.Code] {
				if strings.HasSuffix(key, ".one") {
					continue // not every language distinguishes singular and plural
				}
				if !all[b.Code].Has(key) {
					t.Errorf("%s: %s is missing", b.Code, key)
				}
				if strings.TrimSpace(text) == "" {
					t.Errorf("%s: %s is empty", a.Code, key)
				}
				if want, have := placeholders(text), placeholders(all[b.Code][key]); !slices.Equal(want, have) {
					t.Errorf("%s has the placeholders %v in %s and %v in %s", key, want, a.Code, have, b.Code)
				}
			}
		}
	}
}

func placeholders(text string) []string {
	found := regexp.MustCompile(`\{\d+(:q)?\}`).FindAllString(text, -1)
	slices.Sort(found)
	return slices.Compact(found)
}

func TestEveryKeyOfTheTemplatesHasAText(t *testing.T) {
	all, err := LoadTexts()
	if err != nil {
		t.Fatal(err)
	}
	sources, err := Sources()
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range slices.Sorted(maps.Keys(sources)) {
		for _, m := range keyOf.FindAllStringSubmatch(sources[file], -1) {
			if !all["en"].Has(m[1]) && !strings.HasSuffix(m[1], "_") {
				t.Errorf("%s: there is no text %s", file, m[1])
			}
		}
	}
}

func TestEveryIconOfTheTemplatesIsInTheSprite(t *testing.T) {
	assets, err := LoadAssets()
	if err != nil {
		t.Fatal(err)
	}
	sources, err := Sources()
	if err != nil {
		t.Fatal(err)
	}
	symbols := assets.Symbols()
	for file, text := range sources {
		for _, m := range iconOf.FindAllStringSubmatch(text, -1) {
			if !symbols[m[1]] {
				t.Errorf("%s: the icon %s is not in scripts/web/icons.txt (then: make web)", file, m[1])
			}
		}
	}
}

var inline = regexp.MustCompile(`(?i)<style|<script>|\sstyle=|\son[a-z]+=|javascript:`)

func TestNoTemplateHasInlineScriptOrStyle(t *testing.T) {
	sources, err := Sources()
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range sources {
		if found := inline.FindString(text); found != "" {
			t.Errorf("%s has %q, which the Content-Security-Policy forbids", file, found)
		}
	}
}

// Texts are escaped, so markup passed to one would be shown as text.
func TestNoTextHasMarkupInIt(t *testing.T) {
	sources, err := Sources()
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range sources {
		if found := regexp.MustCompile(`\{\{t "[^"]*"[^}]*\((instant|ago|icon) [^}]*`).FindString(text); found != "" {
			t.Errorf("%s has %s", file, found)
		}
	}
}

var slashed = regexp.MustCompile(`\bpath "[^"]*"[^}]* "[^"/ ]+/[^"]*"`)

// Each part of a path is escaped, so a slash within one would lead to a wrong URL.
func TestNoPartOfAPathHasASlash(t *testing.T) {
	sources, err := Sources()
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range sources {
		if found := slashed.FindString(text); found != "" {
			t.Errorf("%s has %s", file, found)
		}
	}
}

func TestMatchLanguage(t *testing.T) {
	for _, c := range []struct{ choice, accept, want string }{
		{"", "", "en"}, {"", "zh-CN,zh;q=0.9", "zh-Hans"}, {"", "de,fr", "en"}, {"zh-Hans", "en", "zh-Hans"},
		{"xx", "zh", "zh-Hans"},
		{"en", "zh", "en"}, {"", "\x00", "en"},
	} {
		if got := MatchLanguage(c.choice, c.accept); got != c.want {
			t.Errorf("MatchLanguage(%q, %q) = %s, want %s", c.choice, c.accept, got, c.want)
		}
	}
}
