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
	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/registry"
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

// Here returns the address of the page, to return to it.
func (v *View) Here() string { return v.base + v.URL.RequestURI() }

// With returns the address of the page with query parameters set to other values, in pairs. An empty value removes a
// parameter. Any other change removes the page number, too.
func (v *View) With(pairs ...any) string {
	q := v.URL.Query()
	q.Del("page")
	for i := 0; i+1 < len(pairs); i += 2 {
		name, value := fmt.Sprint(pairs[i]), fmt.Sprint(pairs[i+1])
		if value == "" {
			q.Del(name)
		} else {
			q.Set(name, value)
		}
	}
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

func (b *Base) view(c echo.Context, page string, data any) *View {
	u := *c.Request().URL
	u.Path = strings.TrimPrefix(u.Path, b.BasePath)
	u.RawPath = strings.TrimPrefix(u.RawPath, b.BasePath)
	return &View{
		Page: page, Lang: Lang(c), Theme: theme(c), Zone: zoneChoice(c), User: Viewer(c), URL: &u, Strip: b.currentStrip(),
		Version: b.Version,
		Data:    data, base: b.BasePath,
	}
}

// Render answers with a page inside the layout. data is the template's .Data.
func (b *Base) Render(c echo.Context, status int, page string, data any) error {
	v := b.view(c, page, data)
	v.Flashes = b.takeFlashes(c)
	return b.write(c, status, func(w io.Writer) error { return b.templates[v.Lang].Page(w, page, v) })
}

// Parts answers htmx with a page from which it takes parts. Messages wait for the next page.
func (b *Base) Parts(c echo.Context, page string, data any) error {
	v := b.view(c, page, data)
	return b.write(c, http.StatusOK, func(w io.Writer) error { return b.templates[v.Lang].Page(w, page, v) })
}

// Fragment answers htmx with a partial ("partials/x"), or with a block of a page ("topics#rows"). data is the
// template's .Data.
func (b *Base) Fragment(c echo.Context, name string, data any) error {
	return b.fragmentStatus(c, http.StatusOK, name, data)
}

func (b *Base) fragmentStatus(c echo.Context, status int, name string, data any) error {
	v := b.view(c, strings.SplitN(name, "#", 2)[0], data)
	return b.write(c, status, func(w io.Writer) error { return b.templates[v.Lang].Partial(w, name, v) })
}

// write renders into memory first, so that an error becomes an error page.
func (b *Base) write(c echo.Context, status int, execute func(io.Writer) error) error {
	var page bytes.Buffer
	if err := execute(&page); err != nil {
		return fmt.Errorf("render: %w", err)
	}
	c.Response().Header().Add("Vary", "HX-Request")
	return c.HTMLBlob(status, page.Bytes())
}

// renderPartial renders a partial outside of a request, for the hub, without a user.
func (b *Base) renderPartial(language, name string, data any) (string, error) {
	var text strings.Builder
	v := &View{Lang: language, URL: &url.URL{Path: "/"}, Data: data, base: b.BasePath}
	if err := b.templates[language].Partial(&text, name, v); err != nil {
		return "", fmt.Errorf("render %s: %w", name, err)
	}
	return text.String(), nil
}

// T returns the text of a key in the language of the request.
func (b *Base) T(c echo.Context, key string, args ...any) string {
	return b.texts[Lang(c)].T(key, args...)
}

// IsFragment reports whether htmx requests a part of a page.
func IsFragment(c echo.Context) bool { return c.Request().Header.Get("HX-Request") == "true" }

// Redirect redirects the browser to a path below the base path, for htmx requests as well.
func (b *Base) Redirect(c echo.Context, path string) error {
	to := b.BasePath + path
	if IsFragment(c) {
		c.Response().Header().Set("HX-Redirect", to)
		return c.NoContent(http.StatusNoContent)
	}
	return c.Redirect(http.StatusSeeOther, to)
}

// Back redirects to the address in the form's field "back", or to path. It ignores addresses of other sites.
func (b *Base) Back(c echo.Context, path string) error {
	return b.Redirect(c, b.Local(c.FormValue("back"), path))
}

// Local returns a path of this site below the base path, or fallback. Browsers treat "//host" and "/\host" as other
// sites.
func (b *Base) Local(to, fallback string) string {
	u, err := url.Parse(to)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(to, "/") || strings.Contains(u.Path, "//") ||
		strings.ContainsAny(to, "\\\r\n\t") || climbs(u) {
		return fallback
	}
	if b.BasePath != "" {
		rest, ok := strings.CutPrefix(to, b.BasePath)
		if !ok || !strings.HasPrefix(rest, "/") {
			return fallback
		}
		to = rest
	}
	return to
}

// climbs reports whether a path has a segment that browsers take for the folder itself or the one above.
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
func (b *Base) Path(first string, rest ...any) string {
	var to strings.Builder
	to.WriteString(b.BasePath + strings.TrimRight(first, "/"))
	for _, part := range rest {
		to.WriteString("/" + url.PathEscape(fmt.Sprint(part)))
	}
	if to.Len() == len(b.BasePath) {
		to.WriteString("/")
	}
	return to.String()
}

func (b *Base) icon(name string, classes ...string) template.HTML {
	class := strings.Join(append([]string{"icon"}, classes...), " ")
	return template.HTML(`<svg class="` + template.HTMLEscapeString(class) + `" aria-hidden="true"><use href="` +
		template.HTMLEscapeString(b.asset("icons.svg")+"#"+name) + `"/></svg>`)
}

func (b *Base) asset(name string) string { return b.BasePath + "/assets/" + b.assets.Name(name) }

// Below builds a path below the base path, for Redirect.
func (b *Base) Below(first string, rest ...any) string {
	return strings.TrimPrefix(b.Path(first, rest...), b.BasePath)
}

func (b *Base) Snapshot() *registry.Snapshot { return b.Registry.Snapshot() }

func SortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
