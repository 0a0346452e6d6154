package web

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"golang.org/x/text/language"
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

// Texts are the texts of one language by section.key.
type Texts map[string]string

// LoadTexts reads locales/LANGUAGE/SECTION.json for every language; a key "title" of topics.json is "topics.title".
func LoadTexts() (map[string]Texts, error) {
	all := map[string]Texts{}
	for _, l := range Languages {
		texts, err := loadLanguage(l.Code)
		if err != nil {
			return nil, err
		}
		all[l.Code] = texts
	}
	return all, nil
}

func loadLanguage(code string) (Texts, error) {
	files, err := fs.Glob(locales, path.Join("locales", code, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("list the texts in %s: %w", code, err)
	}
	texts := Texts{}
	for _, file := range files {
		if path.Base(file) == messagesFile {
			continue
		}
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

// T returns the text of a key with {0}, {1} … replaced by the arguments. If the first argument is the number 1 and
// there is a text KEY.one, it returns that one. It returns the key itself if there is no text; a test ensures that this
// never happens.
func (t Texts) T(key string, args ...any) string {
	text, ok := t[key]
	if len(args) > 0 && fmt.Sprint(args[0]) == "1" {
		if one, found := t[key+".one"]; found {
			text, ok = one, true
		}
	}
	if !ok {
		return key
	}
	if len(args) == 0 {
		return text
	}
	pairs := make([]string, 0, 2*len(args))
	for i, arg := range args {
		pairs = append(pairs, "{"+strconv.Itoa(i)+"}", fmt.Sprint(arg))
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// Has reports whether a key has a text.
func (t Texts) Has(key string) bool {
	_, ok := t[key]
	return ok
}
