package server

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
)

const headerRequestID = "X-Request-Id"

// middleware serves every request, even one without a route.
func (s *Server) middleware(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		start := time.Now()
		s.metrics.inFlight.Inc()
		s.commonHeaders(c)
		defer s.finish(c, start)
		if err := s.handle(next, c); err != nil {
			s.fail(err, c)
		}
		return nil
	}
}

func (s *Server) commonHeaders(c echo.Context) {
	h := c.Response().Header()
	h[headerRequestID] = []string{requestIDOf(c.Request())}
	h["X-Content-Type-Options"] = noSniff
	h[echo.HeaderCacheControl] = noStore
}

// handle calls the handler. A request without a route also needs a token.
func (s *Server) handle(next echo.HandlerFunc, c echo.Context) error {
	if c.Request().Method == http.MethodOptions {
		return s.options(c)
	}
	err := next(c)
	if err == nil {
		return nil
	}
	var unrouted *echo.HTTPError
	if !errors.As(err, &unrouted) || open(c.Request().URL.Path) {
		return err
	}
	if _, denied := s.authenticate(c.Request()); denied != nil {
		return denied
	}
	return err
}

// options answers OPTIONS with the methods of a route.
func (s *Server) options(c echo.Context) error {
	if !open(c.Request().URL.Path) {
		if _, err := s.authenticate(c.Request()); err != nil {
			return err
		}
	}
	allow := allowed(c)
	if allow == "" {
		return &Problem{Status: http.StatusNotFound}
	}
	c.Response().Header().Set(echo.HeaderAllow, allow)
	return c.NoContent(http.StatusNoContent)
}

// open reports whether a path needs no token.
func open(path string) bool {
	switch path {
	case "/healthz", "/readyz", "/openapi.yaml", "/docs":
		return true
	}
	return strings.HasPrefix(path, "/docs/")
}

// withHead adds HEAD to a list of methods that has GET.
func withHead(allow string) string {
	return strings.Replace(allow, http.MethodGet, http.MethodGet+", "+http.MethodHead, 1)
}

// finish ends every request, even if its handler panicked.
func (s *Server) finish(c echo.Context, start time.Time) {
	s.metrics.inFlight.Dec()
	if p := recover(); p != nil {
		if p == http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
			panic(p)
		}
		s.fail(fmt.Errorf("panic: %v\n%s", p, debug.Stack()), c)
	}
	took := time.Since(start)
	r := c.Request()
	s.metrics.request(r.Method, c.Path(), c.Response().Status, took)
	if s.log.Enabled(r.Context(), slog.LevelDebug) {
		s.log.Debug("request", "request_id", requestID(c), "method", r.Method, "path", r.URL.Path,
			"status", c.Response().Status, "bytes", c.Response().Size, "took", took, "remote", r.RemoteAddr)
	}
}

// safeID matches request ids of clients that are safe to log and to send back.
var safeID = regexp.MustCompile(`^[A-Za-z0-9_.:+/=-]{1,128}$`)

// requestIDOf returns the client's id if it is safe, or else a new one.
func requestIDOf(r *http.Request) string {
	if sent := r.Header[headerRequestID]; len(sent) == 1 && safeID.MatchString(sent[0]) {
		return sent[0]
	}
	return rand.Text()
}

func requestID(c echo.Context) string {
	if id := c.Response().Header()[headerRequestID]; len(id) == 1 {
		return id[0]
	}
	return ""
}
