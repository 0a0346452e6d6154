package web

import (
	"io/fs"
	"strings"
)

// Sources are the texts of the templates by file.
func Sources() (map[string]string, error) {
	texts := map[string]string{}
	err := fs.WalkDir(templates, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := templates.ReadFile(name)
		texts[name] = string(text)
		return err
	})
	return texts, err
}

// Symbols are the names of the icons.
func (a *Assets) Symbols() map[string]bool {
	symbols := map[string]bool{}
	for _, part := range strings.Split(string(a.files[a.names["icons.svg"]].plain()), `<symbol id="`)[1:] {
		name, _, _ := strings.Cut(part, `"`)
		symbols[name] = true
	}
	return symbols
}
