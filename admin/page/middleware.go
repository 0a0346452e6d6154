package page

import (
	"errors"
	"fmt"
	"html"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/bulk"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/registry/seal"
	"github.com/wakecall/wakecall/internal/store"
)

// Proxies are the proxies whose X-Forwarded-For and X-Forwarded-Proto are trusted.
type Proxies []*net.IPNet

// Address extracts a client's address.
func (p Proxies) Address() echo.IPExtractor {
	if len(p) == 0 {
		return echo.ExtractIPDirect()
	}
	trust := []echo.TrustOption{echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
	for _, n := range p {
		trust = append(trust, echo.TrustIPRange(n))
	}
	return echo.ExtractIPFromXFFHeader(trust...)
}

// Policy allows a page to load nothing from elsewhere and to run no inline scripts. Tabler's style sheet contains
// images as data URLs.
const Policy = "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; " +
	"form-action 'self'; frame-ancestors 'none'"

// Headers sets the headers of every answer.
func (p Proxies) Headers(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		h := c.Response().Header()
		h.Set("Content-Security-Policy", Policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
		h.Set("Cache-Control", "no-store")
		if p.Secure(c) {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		c.Request().Body = http.MaxBytesReader(c.Response(), c.Request().Body, maxForm)
		return next(c)
	}
}

// Secure reports whether the browser uses HTTPS, to this process or to a trusted proxy in front of it.
func (p Proxies) Secure(c echo.Context) bool {
	if c.Request().TLS != nil {
		return true
	}
	return c.Request().Header.Get("X-Forwarded-Proto") == "https" && p.include(c)
}

func (p Proxies) include(c echo.Context) bool {
	ip := net.ParseIP(echo.ExtractIPDirect()(c.Request()))
	return ip != nil && slices.ContainsFunc(p, func(n *net.IPNet) bool { return n.Contains(ip) })
}

// Catch renders error pages while the session is still loaded.
func (p *Pages) Catch(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			if v := recover(); v != nil && v != http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
				p.Log.Error("page panicked", "path", c.Request().URL.Path, "panic", v, "stack", string(debug.Stack()))
				p.Fail(errPanic, c)
				err = nil
			} else if v != nil {
				panic(v)
			}
		}()
		if err := next(c); err != nil {
			p.Fail(err, c)
		}
		return nil
	}
}

var errPanic = errors.New("the page failed")

// problem is the data of an error page.
type problem struct {
	Status int
	Title  string // key of its text
	Detail string // details for the user; may be empty
}

func ProblemOf(err error) problem {
	var he *echo.HTTPError
	var field *registry.FieldError
	var away *store.UnavailableError
	var role *roleError
	switch {
	case errors.As(err, &role):
		return problem{http.StatusForbidden, titleOf(http.StatusForbidden), err.Error()}
	case errors.As(err, &he):
		p := problem{Status: he.Code, Title: titleOf(he.Code)}
		if text, ok := he.Message.(string); ok && text != http.StatusText(he.Code) {
			p.Detail = text
		}
		return p
	case errors.Is(err, store.ErrNotFound), errors.Is(err, registry.ErrNoTopic), errors.Is(err, registry.ErrNoShard),
		errors.Is(err, registry.ErrNoToken), errors.Is(err, registry.ErrNoSchedule),
		errors.Is(err, account.ErrNoUser), errors.Is(err, bulk.ErrNoTask):
		return problem{http.StatusNotFound, titleOf(http.StatusNotFound), err.Error()}
	case errors.Is(err, registry.ErrUnavailable), errors.As(err, &away), errors.Is(err, seal.ErrKey):
		return problem{http.StatusServiceUnavailable, titleOf(http.StatusServiceUnavailable), err.Error()}
	case errors.Is(err, account.ErrLastAdmin), errors.Is(err, registry.ErrChanged), errors.Is(err, store.ErrClosed):
		return problem{http.StatusConflict, titleOf(http.StatusConflict), err.Error()}
	case errors.Is(err, store.ErrCursor):
		return problem{http.StatusBadRequest, titleOf(http.StatusBadRequest), err.Error()}
	case errors.As(err, &field), errors.Is(err, registry.ErrText):
		return problem{http.StatusUnprocessableEntity, titleOf(http.StatusUnprocessableEntity), err.Error()}
	}
	return problem{Status: http.StatusInternalServerError, Title: titleOf(http.StatusInternalServerError)}
}

// titleOf returns the key of the text for a status.
func titleOf(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "common.error_401"
	case http.StatusForbidden:
		return "common.error_403"
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return "common.error_404"
	case http.StatusServiceUnavailable:
		return "common.error_503"
	case http.StatusTooManyRequests:
		return "common.error_429"
	}
	if status < http.StatusInternalServerError {
		return "common.error_400"
	}
	return "common.error_500"
}

// Fail answers a request with an error: a page, or for htmx a message above the current page.
func (p *Pages) Fail(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	is := ProblemOf(err)
	if is.Status >= http.StatusInternalServerError {
		p.Log.Error("page failed", "method", c.Request().Method, "path", c.Request().URL.Path, "error", err)
	}
	if is.Detail == err.Error() {
		is.Detail = p.Texts.Explain(c, err)
	}
	if renderErr := p.answerProblem(c, is); renderErr != nil {
		p.Log.Error("render an error page", "error", renderErr)
		_ = c.String(is.Status, http.StatusText(is.Status)+"\n")
	}
}

func (p *Pages) answerProblem(c echo.Context, is problem) error {
	if strings.Contains(c.Request().Header.Get("Accept"), "application/json") {
		return c.JSON(is.Status, map[string]any{"status": is.Status, "detail": is.Detail})
	}
	if IsFragment(c) {
		c.Response().Header().Set("HX-Retarget", "#wk-flash")
		c.Response().Header().Set("HX-Reswap", "innerHTML")
		c.Response().Header().Set("HX-Reselect", ".alert") // instead of what the form selects from an answer
		return p.fragmentStatus(c, is.Status, "partials/problem", is)
	}
	shown := shownProblem{problem: is}
	if is.Status >= http.StatusInternalServerError {
		shown.Kept = Keep(c)
	}
	return p.Render(c, is.Status, "problem", shown)
}

// shownProblem is an error page, with the form that may be sent again.
type shownProblem struct {
	problem
	Kept
}

// Refusal returns the error page for a malformed request, whose session and language are unknown.
func Refusal(status int, detail string) (http.Header, []byte) {
	title := fmt.Sprint(status, " ", http.StatusText(status))
	h := http.Header{"Content-Type": {"text/html; charset=utf-8"}, "Content-Security-Policy": {Policy}}
	const body = "<!doctype html><html lang=\"en\"><title>%[1]s</title><h1>%[1]s</h1><p>%[2]s</p></html>\n"
	return h, fmt.Appendf(nil, body, title, html.EscapeString(detail))
}

const maxForm = 4 << 20 // bytes
