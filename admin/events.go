package admin

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
)

const (
	streamBeat  = 20 * time.Second // between signs of life; the session is looked at again with each
	streamWrite = 10 * time.Second // how long a browser may take for an event
)

// events is a page's stream.
func (a *Admin) events(c echo.Context) error {
	ctx := c.Request().Context()
	if !a.streamAllowed(ctx, c) {
		return c.NoContent(http.StatusNoContent) // which tells the browser not to come again
	}
	r, leave, err := a.hub.join(lang(c), strings.Split(c.QueryParam("on"), ","))
	if err != nil {
		return c.NoContent(http.StatusServiceUnavailable)
	}
	defer leave()
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
	s := &stream{w: c.Response(), rc: http.NewResponseController(c.Response())}
	if err := s.rc.SetReadDeadline(time.Time{}); err != nil { // the server's limit is for requests that end
		return fmt.Errorf("prepare a stream: %w", err)
	}
	if err := s.send("retry: 3000\n\n"); err != nil {
		return nil //nolint:nilerr // the browser is gone
	}
	a.feed(ctx, c, r, s)
	return nil
}

// feed sends what comes until the browser goes, the session ends or the process stops.
func (a *Admin) feed(ctx context.Context, c echo.Context, r *reader, s *stream) {
	beat := time.NewTicker(streamBeat)
	defer beat.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-a.hub.ctx.Done():
			_ = s.send(event("bye", "")) // the page comes again, to the next process
			return
		case <-beat.C:
			if !a.streamAllowed(ctx, c) {
				return
			}
			err = s.send(": here\n\n")
		case <-r.tick:
			for _, m := range r.take() {
				if err = s.send(event(m.name, m.text)); err != nil {
					break
				}
			}
		}
		if err != nil {
			return
		}
	}
}

// streamAllowed looks into the session without keeping it: a stream must not make it live longer.
func (a *Admin) streamAllowed(ctx context.Context, c echo.Context) bool {
	cookie, err := c.Cookie(sessionCookie)
	if err != nil {
		return false
	}
	// The request's context bears no session of its own, so loading gives a new one each time.
	ctx, err = a.sessions.Load(ctx, cookie.Value)
	if err != nil {
		return false
	}
	name := a.sessions.GetString(ctx, keyUser)
	if name == "" {
		return false
	}
	u, err := a.users.get(ctx, name)
	return err == nil && u != nil && !a.outdated(ctx, u)
}

// lineEnds makes one of all that end a line of a stream: a carriage return in what somebody wrote would begin an event of theirs.
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
