// Package page contains what all pages of the web admin share: rendering, messages, forms, lists, the current user, and
// the middleware around every request.
package page

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/alexedwards/scs/v2"
	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/live"
	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/web"
)

// Base is embedded in the handlers of all areas.
type Base struct {
	Options
	Sessions  *scs.SessionManager // set by package access
	Hub       *live.Hub
	assets    *web.Assets
	texts     map[string]message.Texts
	templates map[string]*web.Templates // by language
	strip     atomic.Pointer[Strip]
}

// New loads templates, texts and assets. It fails when one of them is broken.
func New(o Options) (b *Base, err error) {
	o.BasePath = strings.TrimRight(o.BasePath, "/")
	b = &Base{Options: o, templates: map[string]*web.Templates{}}
	if b.assets, err = web.LoadAssets(); err != nil {
		return nil, err
	}
	if b.texts, err = web.LoadTexts(); err != nil {
		return nil, err
	}
	for _, l := range web.Languages {
		if b.templates[l.Code], err = web.LoadTemplates(b.funcs(l.Code)); err != nil {
			return nil, err
		}
	}
	b.Hub = live.NewHub(b.renderPartial, o.Log)
	return b, nil
}

// Live registers a live part: pages with data-live="NAME" or "NAME:ARG" show it.
func (b *Base) Live(name string, every time.Duration, partial string, data live.Data) {
	b.Hub.Register(name, live.Source{Every: every, Partial: partial, Data: data})
}

// FormsOf redirects GET requests for the addresses of a page's forms to the page. After a mistake, the page is shown at
// a form's address, and the user may request that again by reloading or choosing a language.
func (b *Base) FormsOf(g *echo.Group, path string, forms ...string) {
	for _, form := range forms {
		g.GET(form, func(c echo.Context) error { return b.Redirect(c, path) })
	}
}

// Assets returns the files that pages load.
func (b *Base) Assets() *web.Assets { return b.assets }

// Templates returns the loaded templates by language.
func (b *Base) Templates() map[string]*web.Templates { return b.templates }

// SetStrip sets the totals that every page shows.
func (b *Base) SetStrip(s *Strip) { b.strip.Store(s) }
