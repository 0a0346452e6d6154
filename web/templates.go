package web

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"path"
	"strings"
)

//go:embed templates
var templates embed.FS

// Templates are the parsed templates of one language.
type Templates struct {
	pages    map[string]*template.Template
	partials *template.Template
}

// LoadTemplates parses templates/layout.html, templates/partials/*.html and every templates/pages/*.html with funcs, once for each
// language, since the function t is of a language.
func LoadTemplates(funcs template.FuncMap) (*Templates, error) {
	base, err := template.New("").Funcs(funcs).ParseFS(templates, "templates/layout.html")
	if err != nil {
		return nil, fmt.Errorf("parse the layout: %w", err)
	}
	if err := parseNamed(base, "partials"); err != nil {
		return nil, err
	}
	t := &Templates{pages: map[string]*template.Template{}, partials: base}
	pages, err := fs.Glob(templates, "templates/pages/*.html")
	if err != nil {
		return nil, fmt.Errorf("list the pages: %w", err)
	}
	for _, file := range pages {
		// Cloned before anything is executed, which html/template demands.
		page, err := base.Clone()
		if err == nil {
			page, err = page.ParseFS(templates, file)
		}
		if err != nil {
			return nil, fmt.Errorf("parse %s: %w", file, err)
		}
		t.pages[strings.TrimSuffix(path.Base(file), ".html")] = page
	}
	if t.partials, err = base.Clone(); err != nil {
		return nil, fmt.Errorf("copy the partials: %w", err)
	}
	return t, nil
}

// parseNamed parses the files of a directory as templates called DIR/NAME.
func parseNamed(into *template.Template, dir string) error {
	files, err := fs.Glob(templates, path.Join("templates", dir, "*.html"))
	if err != nil {
		return fmt.Errorf("list %s: %w", dir, err)
	}
	for _, file := range files {
		text, err := templates.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
		name := dir + "/" + strings.TrimSuffix(path.Base(file), ".html")
		if _, err := into.New(name).Parse(string(text)); err != nil {
			return fmt.Errorf("parse %s: %w", file, err)
		}
	}
	return nil
}

// Page writes a page inside of the layout.
func (t *Templates) Page(w io.Writer, page string, data any) error {
	p, ok := t.pages[page]
	if !ok {
		return fmt.Errorf("there is no page %s", page)
	}
	return p.ExecuteTemplate(w, "layout.html", data)
}

// Partial writes one partial, such as partials/strip, or a block of a page, such as topics#rows.
func (t *Templates) Partial(w io.Writer, name string, data any) error {
	page, block, isBlock := strings.Cut(name, "#")
	if !isBlock {
		return t.partials.ExecuteTemplate(w, name, data)
	}
	p, ok := t.pages[page]
	if !ok {
		return fmt.Errorf("there is no page %s", page)
	}
	return p.ExecuteTemplate(w, block, data)
}

// Sources are the templates' texts by file, for checks.
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
