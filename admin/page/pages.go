// Package page contains what all pages of the web admin share: rendering, texts, messages, forms, the current
// user and their rights, and the middleware around every request.
package page

import (
	"crypto/rand"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/internal/registry/seal"
	"github.com/wakecall/wakecall/web"
)

// Options configure Pages.
type Options struct {
	BasePath string // path prefix of all pages: / or /wakecall
	Version  string
	Texts    *Texts
	Flashes  *Flashes
	Log      *slog.Logger
	Now      func() time.Time
	Key      seal.Key // all hosts' key; nil: one of this process
}

// Pages renders pages and knows their addresses.
type Pages struct {
	Options
	assets    *web.Assets
	templates map[string]*web.Templates // by language
	strip     atomic.Pointer[Strip]
}

// New loads templates and assets. It fails when one of them is broken.
func New(o Options) (p *Pages, err error) {
	o.BasePath = CleanBase(o.BasePath)
	if o.Key == nil {
		o.Key = make(seal.Key, seal.KeySize)
		_, _ = rand.Read(o.Key) // never fails (crypto/rand)
	}
	p = &Pages{Options: o, templates: map[string]*web.Templates{}}
	if p.assets, err = web.LoadAssets(); err != nil {
		return nil, err
	}
	for _, l := range web.Languages {
		if p.templates[l.Code], err = web.LoadTemplates(p.funcs(l.Code)); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// CleanBase returns a base path without the slash at its end.
func CleanBase(path string) string { return strings.TrimRight(path, "/") }

// FormsOf redirects GET requests for the addresses of a page's forms to the page. A form with errors is shown at its
// own address, which the user may request again by reloading or choosing a language.
func (p *Pages) FormsOf(g *echo.Group, path string, forms ...string) {
	for _, form := range forms {
		g.GET(form, func(c echo.Context) error { return p.Redirect(c, path) })
	}
}

// Assets returns the files that pages load.
func (p *Pages) Assets() *web.Assets { return p.assets }

// SetStrip sets the totals that every page shows.
func (p *Pages) SetStrip(s *Strip) { p.strip.Store(s) }
