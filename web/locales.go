package web

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"golang.org/x/text/language"

	"github.com/wakecall/wakecall/internal/message"
)

//go:embed locales
var locales embed.FS

// Language is a language of the admin.
type Language struct {
	Code string // en, zh-Hans: the directory of its texts, and the page's lang
	Name string // the language's own name
}

// Languages contains all languages, the default first.
var Languages = []Language{{"en", "English"}, {"zh-Hans", "简体中文"}}

var matcher = language.NewMatcher([]language.Tag{language.English, language.SimplifiedChinese})

// MatchLanguage returns the code of the language that best matches the choice, or, if that is empty, the
// Accept-Language header.
func MatchLanguage(choice, accept string) string {
	for _, l := range Languages {
		if l.Code == choice {
			return l.Code
		}
	}
	tags, _, err := language.ParseAcceptLanguage(accept)
	if err != nil || len(tags) == 0 {
		return Languages[0].Code
	}
	_, i, _ := matcher.Match(tags...)
	return Languages[i].Code
}

// LoadTexts returns the texts of the pages and the messages for every language. It reads
// locales/LANGUAGE/SECTION.json; a key "title" of topics.json is "topics.title".
func LoadTexts() (map[string]message.Texts, error) {
	all := map[string]message.Texts{}
	for _, l := range Languages {
		texts, err := loadLanguage(l.Code)
		if err != nil {
			return nil, err
		}
		all[l.Code] = texts
	}
	return all, nil
}

func loadLanguage(code string) (message.Texts, error) {
	texts, err := message.Catalogue(code)
	if err != nil {
		return nil, err
	}
	files, err := fs.Glob(locales, path.Join("locales", code, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("list the texts in %s: %w", code, err)
	}
	for _, file := range files {
		data, err := locales.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		var section map[string]string
		if err := json.Unmarshal(data, &section); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		name := strings.TrimSuffix(path.Base(file), ".json")
		for key, text := range section {
			texts[name+"."+key] = text
		}
	}
	return texts, nil
}
