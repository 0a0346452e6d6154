package server

import (
	"bytes"
	_ "embed" // docs.html
	"fmt"
	"html/template"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/web"
)

//go:embed docs.html
var docsTemplate string

// docsPolicy allows the /docs page to load its own viewer and openapi.yaml. The icons of Swagger UI are data URLs.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

var htmlType = []string{"text/html; charset=utf-8"}

// docs holds the /docs page and the files that it loads.
type docs struct {
	page   []byte
	assets *web.Assets
}

func newDocs(version string) (*docs, error) {
	assets, err := web.LoadAssets()
	if err != nil {
		return nil, err
	}
	t, err := template.New("docs").Funcs(template.FuncMap{"asset": assets.Name}).Parse(docsTemplate)
	if err != nil {
		return nil, fmt.Errorf("parse docs.html: %w", err)
	}
	var page bytes.Buffer
	if err := t.Execute(&page, version); err != nil {
		return nil, err
	}
	return &docs{page: page.Bytes(), assets: assets}, nil
}

func (s *Server) docsPage(c echo.Context) error {
	h := c.Response().Header()
	h.Set(echo.HeaderCacheControl, "no-cache")
	h.Set(echo.HeaderContentSecurityPolicy, docsPolicy)
	h.Set("Referrer-Policy", "no-referrer")
	return write(c, http.StatusOK, htmlType, s.docs.page)
}

func (s *Server) docsAsset(c echo.Context) error {
	if !s.docs.assets.Has(c.Param("file")) {
		return &Problem{Status: http.StatusNotFound}
	}
	s.docs.assets.ServeHTTP(c.Response(), c.Request())
	return nil
}
