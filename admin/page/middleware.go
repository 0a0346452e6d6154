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
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/registry/seal"
)

// AddressOf extracts a client's address. X-Forwarded-For counts if the connection comes from a trusted proxy.
func AddressOf(proxies []*net.IPNet) echo.IPExtractor {
	if len(proxies) == 0 {
		return echo.ExtractIPDirect()
	}
	trust := []echo.TrustOption{echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
	for _, n := range proxies {
		trust = append(trust, echo.TrustIPRange(n))
	}
	return echo.ExtractIPFromXFFHeader(trust...)
}

// Policy allows a page to load nothing from elsewhere and to run no inline scripts. Tabler's style sheet contains
// images as data URLs.
const Policy = "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; " +
	"form-action 'self'; frame-ancestors 'none'"

// Headers sets the headers of every answer.
func (b *Base) Headers(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		h := c.Response().Header()
		h.Set("Content-Security-Policy", Policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
		h.Set("Cache-Control", "no-store")
		if b.Secure(c) {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		c.Request().Body = http.MaxBytesReader(c.Response(), c.Request().Body, maxForm)
		return next(c)
	}
}

// Secure reports whether the browser uses HTTPS, to this process or to a trusted proxy in front of it.
func (b *Base) Secure(c echo.Context) bool {
	if c.Request().TLS != nil {
		return true
	}
	return c.Request().Header.Get("X-Forwarded-Proto") == "https" && b.fromProxy(c)
}

func (b *Base) fromProxy(c echo.Context) bool {
	ip := net.ParseIP(echo.ExtractIPDirect()(c.Request()))
	return ip != nil && slices.ContainsFunc(b.TrustedProxies, func(n *net.IPNet) bool { return n.Contains(ip) })
}

// Catch renders error pages while the session is still loaded.
func (b *Base) Catch(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler {
				b.Log.Error("page panicked", "path", c.Request().URL.Path, "panic", p, "stack", string(debug.Stack()))
				b.Fail(errPanic, c)
				err = nil
			} else if p != nil {
				panic(p)
			}
		}()
		if err := next(c); err != nil {
			b.Fail(err, c)
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
	var away *queue.UnavailableError
	switch {
	case errors.As(err, &he):
		p := problem{Status: he.Code, Title: titleOf(he.Code)}
		if text, ok := he.Message.(string); ok && text != http.StatusText(he.Code) {
			p.Detail = text
		}
		return p
	case errors.Is(err, queue.ErrNotFound), errors.Is(err, registry.ErrNoTopic), errors.Is(err, registry.ErrNoShard),
		errors.Is(err, registry.ErrNoToken), errors.Is(err, account.ErrNoUser), errors.Is(err, bulk.ErrNoTask):
		return problem{http.StatusNotFound, titleOf(http.StatusNotFound), err.Error()}
	case errors.Is(err, registry.ErrUnavailable), errors.As(err, &away), errors.Is(err, seal.ErrKey):
		return problem{http.StatusServiceUnavailable, titleOf(http.StatusServiceUnavailable), err.Error()}
	case errors.Is(err, account.ErrLastAdmin), errors.Is(err, registry.ErrChanged):
		return problem{http.StatusConflict, titleOf(http.StatusConflict), err.Error()}
	case errors.Is(err, queue.ErrCursor):
		return problem{http.StatusBadRequest, titleOf(http.StatusBadRequest), err.Error()}
	case errors.As(err, &field):
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
func (b *Base) Fail(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	p := ProblemOf(err)
	if p.Status >= http.StatusInternalServerError {
		b.Log.Error("page failed", "method", c.Request().Method, "path", c.Request().URL.Path, "error", err)
	}
	if p.Detail == err.Error() {
		p.Detail = b.Explain(c, err)
	}
	if renderErr := b.answerProblem(c, p); renderErr != nil {
		b.Log.Error("render the page of an error", "error", renderErr)
		_ = c.String(p.Status, http.StatusText(p.Status)+"\n")
	}
}

func (b *Base) answerProblem(c echo.Context, p problem) error {
	if strings.Contains(c.Request().Header.Get("Accept"), "application/json") {
		return c.JSON(p.Status, map[string]any{"status": p.Status, "detail": p.Detail})
	}
	if IsFragment(c) {
		c.Response().Header().Set("HX-Retarget", "#wk-flash")
		c.Response().Header().Set("HX-Reswap", "innerHTML")
		c.Response().Header().Set("HX-Reselect", ".alert") // instead of what the form selects from an answer
		return b.fragmentStatus(c, p.Status, "partials/problem", p)
	}
	shown := shownProblem{problem: p}
	if p.Status >= http.StatusInternalServerError {
		shown.Kept = Keep(c)
	}
	return b.Render(c, p.Status, "problem", shown)
}

// shownProblem is an error page, with the form that may be sent again.
type shownProblem struct {
	problem
	Kept
}

// Refusal returns the error page for a malformed request, of which neither session nor language are known.
func Refusal(status int, detail string) (http.Header, []byte) {
	title := fmt.Sprint(status, " ", http.StatusText(status))
	h := http.Header{"Content-Type": {"text/html; charset=utf-8"}, "Content-Security-Policy": {Policy}}
	return h, fmt.Appendf(nil, "<!doctype html><html lang=\"en\"><title>%[1]s</title><h1>%[1]s</h1><p>%[2]s</p></html>\n",
		title, html.EscapeString(detail))
}

const maxForm = 4 << 20 // bytes
