// Package live keeps parts of open pages up to date: a hub of sources, and a stream of server-sent events for each
// page.
package live

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
)

const (
	streamBeat  = 20 * time.Second // interval of heartbeats; each also checks the session again
	streamWrite = 10 * time.Second // how long a browser may take for an event
)

// Serve sends a page its events. userOf returns the user of the page's session; empty: the session is no longer valid.
func (h *Hub) Serve(c echo.Context, language string, userOf func(echo.Context) string) error {
	user := userOf(c)
	if user == "" {
		return c.NoContent(http.StatusNoContent) // tells the browser not to reconnect
	}
	r, leave, err := h.join(user, language, strings.Split(c.QueryParam("on"), ","))
	if err != nil {
		return c.NoContent(http.StatusServiceUnavailable)
	}
	defer leave()
	header := c.Response().Header()
	header.Set(echo.HeaderContentType, "text/event-stream")
	header.Set("X-Accel-Buffering", "no") // nginx would hold events back
	s := &stream{w: c.Response(), rc: http.NewResponseController(c.Response())}
	if err := s.rc.SetReadDeadline(time.Time{}); err != nil { // the server's limit is meant for requests that end
		return fmt.Errorf("prepare a stream: %w", err)
	}
	if err := s.send("retry: 3000\n\n"); err != nil {
		return nil //nolint:nilerr // the browser has disconnected
	}
	h.feed(c.Request().Context(), r, s, func() bool { return userOf(c) == user })
	return nil
}

// feed sends events until the browser disconnects, the session ends or the process stops.
func (h *Hub) feed(ctx context.Context, r *reader, s *stream, allowed func() bool) {
	beat := time.NewTicker(streamBeat)
	defer beat.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-h.Done():
			_ = s.send(event("bye", "")) // the page reconnects, to the next process
			return
		case <-beat.C:
			if !allowed() {
				return
			}
			err = s.send(": here\n\n")
		case <-r.tick:
			err = s.sendAll(r.take())
		}
		if err != nil {
			return
		}
	}
}

func (s *stream) sendAll(messages []message) error {
	for _, m := range messages {
		if err := s.send(event(m.name, m.text)); err != nil {
			return err
		}
	}
	return nil
}

// lineEnds normalizes line ends: otherwise a carriage return in a user's text could begin a forged event.
var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

func event(name, text string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "event: %s\n", strings.ReplaceAll(lineEnds.Replace(name), "\n", " "))
	text = lineEnds.Replace(text)
	for line := range strings.Lines(text) {
		b.WriteString("data: " + strings.TrimRight(line, "\n") + "\n")
	}
	if text == "" {
		b.WriteString("data:\n")
	}
	b.WriteString("\n")
	return b.String()
}

type stream struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

func (s *stream) send(text string) error {
	if err := s.rc.SetWriteDeadline(time.Now().Add(streamWrite)); err != nil {
		return err
	}
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.rc.Flush()
}
