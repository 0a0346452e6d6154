package topics

import (
	"embed"
	"slices"
	"strings"

	"github.com/wakecall/wakecall/admin/page"
)

// snippet is a program that pushes a job, in the language that a topic's page shows.
type snippet struct{ Language, Title, Code string }

// snippets are the languages offered, curl first.
var snippets = []snippet{
	{Language: "curl", Title: "curl"}, {Language: "go", Title: "Go"}, {Language: "php", Title: "PHP"},
	{Language: "python", Title: "Python"}, {Language: "java", Title: "Java"}, {Language: "node", Title: "Node.js"},
}

//go:embed snippets/*.txt
var programs embed.FS

// snippetIn returns the snippet of a language, or of curl if there is none. Addresses and topic names contain nothing
// that needs escaping in any of them.
func snippetIn(language, api, topic string) snippet {
	s := snippets[max(0, slices.IndexFunc(snippets, func(s snippet) bool { return s.Language == language }))]
	code, err := programs.ReadFile("snippets/" + s.Language + ".txt")
	if err != nil { // curl, which the overview shows too
		s.Code = page.CurlLine(api, topic, "$WAKECALL_TOKEN", `{"body":{"order":42},"delay":"30m"}`)
		return s
	}
	s.Code = strings.NewReplacer("{api}", strings.TrimRight(api, "/"), "{topic}", topic).Replace(string(code))
	return s
}
