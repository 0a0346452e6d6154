package page

import (
	"bytes"
	"fmt"
	"html/template"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
	"github.com/wakecall/wakecall/admin/list"
	"github.com/wakecall/wakecall/internal/account"
)

// View is the data of every template; Data holds the page's own data.
type View struct {
	Page    string // the template; also marks the entry in the navigation
	Lang    string
	Theme   string // light, dark or auto
	Zone    string // zone of times: browser, UTC or a named one
	User    *account.User
	URL     *url.URL // URL of the request, below the base path
	Flashes []Flash
	Strip   *Strip
	Version string
	Data    any

	base string
}

// Can reports whether the user has a role, or a higher one.
func (v *View) Can(role string) bool {
	return v.User != nil && Reaches(v.User.Role, account.Role(role))
}

// Of returns the view with other data, for a partial that is also a fragment of its own.
func (v *View) Of(data any) *View {
	with := *v
	with.Data = data
	return &with
}

// Here returns the address of the page, to return to it.
func (v *View) Here() string { return v.base + v.URL.RequestURI() }

// With returns the address of the page with query parameters set to other values, in pairs. An empty value removes a
// parameter. Any other change removes the page number, too.
func (v *View) With(pairs ...any) string {
	q := list.With(v.URL.Query(), pairs...)
	here := v.base + v.URL.EscapedPath()
	if len(q) == 0 {
		return here
	}
	return here + "?" + q.Encode()
}

// Query returns a query parameter of the page.
func (v *View) Query(name string) string { return v.URL.Query().Get(name) }

// In reports whether the page is one of those named, for the navigation.
func (v *View) In(pages ...string) bool {
	return slices.Contains(pages, v.Page)
}

func (p *Pages) view(c echo.Context, page string, data any) *View {
	u := *c.Request().URL
	u.Path = strings.TrimPrefix(u.Path, p.BasePath)
	u.RawPath = strings.TrimPrefix(u.RawPath, p.BasePath)
	return &View{
		Page: page, Lang: Lang(c), Theme: theme(c), Zone: zoneChoice(c), User: Viewer(c), URL: &u,
		Strip: p.currentStrip(), Version: p.Version, Data: data, base: p.BasePath,
	}
}

// Render answers with a page inside the layout. data is the template's .Data.
func (p *Pages) Render(c echo.Context, status int, page string, data any) error {
	v := p.view(c, page, data)
	v.Flashes = p.Flashes.take(c)
	return p.write(c, status, func(w io.Writer) error { return p.templates[v.Lang].Page(w, page, v) })
}

// Parts answers htmx with a page of which it swaps in some parts. Messages are kept for the next page.
func (p *Pages) Parts(c echo.Context, page string, data any) error {
	v := p.view(c, page, data)
	return p.write(c, http.StatusOK, func(w io.Writer) error { return p.templates[v.Lang].Page(w, page, v) })
}

// Fragment answers htmx with a partial ("partials/x"), or with a block of a page ("topics#rows"). data is the
// template's .Data.
func (p *Pages) Fragment(c echo.Context, name string, data any) error {
	return p.fragmentStatus(c, http.StatusOK, name, data)
}

func (p *Pages) fragmentStatus(c echo.Context, status int, name string, data any) error {
	v := p.view(c, strings.SplitN(name, "#", 2)[0], data)
	return p.write(c, status, func(w io.Writer) error { return p.templates[v.Lang].Partial(w, name, v) })
}

// write renders into memory first, so that an error becomes an error page.
func (p *Pages) write(c echo.Context, status int, execute func(io.Writer) error) error {
	var page bytes.Buffer
	if err := execute(&page); err != nil {
		return fmt.Errorf("render: %w", err)
	}
	c.Response().Header().Add("Vary", "HX-Request")
	return c.HTMLBlob(status, page.Bytes())
}

// RenderPartial renders a partial outside of a request, for the hub, without a user.
func (p *Pages) RenderPartial(language, name string, data any) (string, error) {
	var text strings.Builder
	v := &View{Lang: language, URL: &url.URL{Path: "/"}, Data: data, base: p.BasePath}
	if err := p.templates[language].Partial(&text, name, v); err != nil {
		return "", fmt.Errorf("render %s: %w", name, err)
	}
	return text.String(), nil
}

// IsFragment reports whether htmx requests a part of a page.
func IsFragment(c echo.Context) bool { return c.Request().Header.Get("HX-Request") == "true" }

// Redirect redirects the browser to a path below the base path, for htmx requests as well.
func (p *Pages) Redirect(c echo.Context, path string) error {
	to := p.BasePath + path
	if IsFragment(c) {
		c.Response().Header().Set("HX-Redirect", to)
		return c.NoContent(http.StatusNoContent)
	}
	return c.Redirect(http.StatusSeeOther, to)
}

// Back redirects to the address in the form's field "back", or to path. It ignores addresses of other sites.
func (p *Pages) Back(c echo.Context, path string) error {
	return p.Redirect(c, p.Local(c.FormValue("back"), path))
}

// Local returns a path of this site below the base path, or fallback. Browsers treat "//host" and "/\host" as other
// sites.
func (p *Pages) Local(to, fallback string) string {
	u, err := url.Parse(to)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(to, "/") || strings.Contains(u.Path, "//") ||
		strings.ContainsAny(to, "\\\r\n\t") || climbs(u) {
		return fallback
	}
	if p.BasePath != "" {
		rest, ok := strings.CutPrefix(to, p.BasePath)
		if !ok || !strings.HasPrefix(rest, "/") {
			return fallback
		}
		to = rest
	}
	return to
}

// climbs reports whether a path has a segment that browsers resolve to the folder itself or its parent.
func climbs(u *url.URL) bool {
	for segment := range strings.SplitSeq(u.EscapedPath(), "/") {
		if name, _ := url.PathUnescape(segment); name == "." || name == ".." {
			return true
		}
	}
	return false
}

// Param returns a decoded path parameter.
func Param(c echo.Context, name string) string {
	value := c.Param(name)
	if c.Request().URL.RawPath == "" {
		return value // echo matched the path after decoding it
	}
	decoded, err := url.PathUnescape(value)
	if err != nil {
		return value
	}
	return decoded
}

// Path builds a path of the admin and escapes what follows the first part: path("/topics", name, "jobs", id).
func (p *Pages) Path(first string, rest ...any) string {
	var to strings.Builder
	to.WriteString(p.BasePath + strings.TrimRight(first, "/"))
	for _, part := range rest {
		to.WriteString("/" + url.PathEscape(fmt.Sprint(part)))
	}
	if to.Len() == len(p.BasePath) {
		to.WriteString("/")
	}
	return to.String()
}

func (p *Pages) icon(name string, classes ...string) template.HTML {
	class := strings.Join(append([]string{"icon"}, classes...), " ")
	return template.HTML(`<svg class="` + template.HTMLEscapeString(class) + `" aria-hidden="true"><use href="` +
		template.HTMLEscapeString(p.asset("icons.svg")+"#"+name) + `"/></svg>`)
}

func (p *Pages) asset(name string) string { return p.BasePath + "/assets/" + p.assets.Name(name) }

// Below builds a path below the base path, for Redirect.
func (p *Pages) Below(first string, rest ...any) string {
	return strings.TrimPrefix(p.Path(first, rest...), p.BasePath)
}

func SortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
