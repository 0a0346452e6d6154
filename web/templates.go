package web

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"path"
	"strings"
	"sync"
)

//go:embed templates
var templates embed.FS

// Templates are the templates of one language.
type Templates struct {
	pages    map[string]func() (*template.Template, error)
	partials func() (*template.Template, error)
}

// LoadTemplates parses templates/layout.html and templates/partials/*.html with funcs. Call it once for each language,
// because the function t depends on it. Each of templates/pages/*.html is parsed at its first use, with its parts in
// templates/pages/PAGE, if any: with its copy of all partials it takes a quarter of a megabyte.
func LoadTemplates(funcs template.FuncMap) (*Templates, error) {
	base, err := template.New("").Funcs(funcs).ParseFS(templates, "templates/layout.html")
	if err != nil {
		return nil, fmt.Errorf("parse the layout: %w", err)
	}
	if err := parseNamed(base, "partials"); err != nil {
		return nil, err
	}
	t := &Templates{pages: map[string]func() (*template.Template, error){}, partials: sync.OnceValues(base.Clone)}
	pages, err := fs.Glob(templates, "templates/pages/*.html")
	if err != nil {
		return nil, fmt.Errorf("list the pages: %w", err)
	}
	for _, file := range pages {
		name := strings.TrimSuffix(path.Base(file), ".html")
		t.pages[name] = sync.OnceValues(func() (*template.Template, error) { return parsePage(base, name) })
	}
	return t, nil
}

// parsePage parses a page together with a copy of the partials: html/template cannot add templates to a set after one
// of them was executed, so the base is never executed.
func parsePage(base *template.Template, name string) (*template.Template, error) {
	page, err := base.Clone()
	if err != nil {
		return nil, fmt.Errorf("copy the partials: %w", err)
	}
	file := "templates/pages/" + name + ".html"
	if page, err = page.ParseFS(templates, file); err != nil {
		return nil, fmt.Errorf("parse %s: %w", file, err)
	}
	return page, parseNamed(page, "pages/"+name)
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

func (t *Templates) page(name string) (*template.Template, error) {
	p, ok := t.pages[name]
	if !ok {
		return nil, fmt.Errorf("there is no page %s", name)
	}
	return p()
}

// Page renders a page inside the layout.
func (t *Templates) Page(w io.Writer, page string, data any) error {
	p, err := t.page(page)
	if err != nil {
		return err
	}
	return p.ExecuteTemplate(w, "layout.html", data)
}

// Partial renders a partial, such as partials/strip, or a block of a page, such as topics#rows.
func (t *Templates) Partial(w io.Writer, name string, data any) error {
	page, block, isBlock := strings.Cut(name, "#")
	if !isBlock {
		p, err := t.partials()
		if err != nil {
			return fmt.Errorf("copy the partials: %w", err)
		}
		return p.ExecuteTemplate(w, name, data)
	}
	p, err := t.page(page)
	if err != nil {
		return err
	}
	return p.ExecuteTemplate(w, block, data)
}

// ParseAll parses every page now, for checks.
func (t *Templates) ParseAll() error {
	for _, page := range t.pages {
		if _, err := page(); err != nil {
			return err
		}
	}
	return nil
}
