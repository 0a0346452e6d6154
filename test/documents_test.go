package test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	documentLink    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	documentHeading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	fencedCode      = regexp.MustCompile("(?ms)^```.*?^```$")
	notInAnAnchor   = regexp.MustCompile(`[^\p{L}\p{N}\s_-]`)
)

// TestLinksOfTheDocuments: each link between the documents, and to a file of the repository, leads to a file and a
// heading that exist.
func TestLinksOfTheDocuments(t *testing.T) {
	t.Parallel()
	var documents []string
	for _, pattern := range []string{"../*.md", "../docs/*.md", "../docs/*/*.md", "../docs/guides/*/*.md", "../deploy/*/*.md",
		"../clients/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, found...)
	}
	if len(documents) < 20 {
		t.Fatalf("only %d documents", len(documents))
	}
	for _, document := range documents {
		for _, link := range documentLink.FindAllStringSubmatch(withoutCode(t, document), -1) {
			if strings.Contains(link[1], ":") {
				continue
			}
			path, anchor, _ := strings.Cut(link[1], "#")
			target := document
			if path != "" {
				target = filepath.Join(filepath.Dir(document), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", document, link[1], err)
				continue
			}
			if anchor != "" && strings.HasSuffix(target, ".md") && !anchors(withoutCode(t, target))[anchor] {
				t.Errorf("%s links to %s: no such heading", document, link[1])
			}
		}
	}
}

// TestLinksForLanguageModels: docs/public/llms.txt, which the site has at its root, names pages that exist.
func TestLinksForLanguageModels(t *testing.T) {
	t.Parallel()
	const docs = "https://raw.githubusercontent.com/wakecall/wakecall/main/"
	text, err := os.ReadFile("../docs/public/llms.txt")
	if err != nil {
		t.Fatal(err)
	}
	links := documentLink.FindAllStringSubmatch(string(text), -1)
	if len(links) < 20 {
		t.Fatalf("only %d links", len(links))
	}
	for _, link := range links {
		path, found := strings.CutPrefix(link[1], docs)
		if _, err := os.Stat(filepath.Join("..", path)); err != nil || !found {
			t.Errorf("llms.txt links to %s: %v", link[1], err)
		}
	}
}

// withoutCode returns a document without its fenced code.
func withoutCode(t *testing.T, document string) string {
	t.Helper()
	b, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	return fencedCode.ReplaceAllString(string(b), "")
}

// anchors returns those that GitHub gives to the headings, as does the site.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, heading := range documentHeading.FindAllStringSubmatch(text, -1) {
		plain := documentLink.ReplaceAllString(heading[1], "")
		anchor := strings.ReplaceAll(strings.ToLower(notInAnAnchor.ReplaceAllString(plain, "")), " ", "-")
		unique := anchor
		for n := 1; all[unique]; n++ {
			unique = anchor + "-" + strconv.Itoa(n)
		}
		all[unique] = true
	}
	return all
}
