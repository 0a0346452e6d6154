package access

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/page"
)

// Keys of values that the list of sessions shows.
const (
	keyAddress = "address"
	keyAgent   = "agent"
	keySeen    = "seen" // Unix seconds, at most seenStep old
)

const (
	seenStep = time.Minute
	maxAgent = 200
)

// sessionLine is one session in a list.
type sessionLine struct {
	ID             string // a hash of its token's hash: identifies the session without granting access
	User           string
	Address, Agent string
	Since, Seen    time.Time
	Current        bool
	waiting        bool // waits for the code of a second factor: not signed in yet
	own            string
}

// Browser returns a short form of the user agent, such as Firefox, Linux.
func (s sessionLine) Browser() string {
	var found []string
	for _, group := range [][]string{{"Edg/", "OPR/", "Firefox/", "Chrome/", "Safari/", "curl/"},
		{"Android", "iPhone", "iPad", "Windows", "Mac OS", "Linux"}} {
		for _, mark := range group {
			if strings.Contains(s.Agent, mark) {
				found = append(found, strings.Replace(strings.TrimSuffix(mark, "/"), "Edg", "Edge", 1))
				break
			}
		}
	}
	if len(found) == 0 {
		return s.Agent
	}
	return strings.Join(found, ", ")
}

// noteUse stores when and from where the session is used, and extends it, at most once a minute. Background
// requests of an open page do not extend the session.
func (h *Handler) noteUse(c echo.Context) {
	if byScript(c) {
		return
	}
	ctx := c.Request().Context()
	now := h.Now()
	if now.Unix()-h.Sessions.GetInt64(ctx, keySeen) < int64(seenStep/time.Second) {
		return
	}
	left := time.Unix(h.Sessions.GetInt64(ctx, keySince), 0).Add(sessionLife).Sub(now)
	h.Sessions.SetDeadline(ctx, now.Add(min(left, sessionIdle)))
	agent := c.Request().UserAgent()
	h.Sessions.Put(ctx, keySeen, now.Unix())
	h.Sessions.Put(ctx, keyAddress, c.RealIP())
	h.Sessions.Put(ctx, keyAgent, agent[:min(len(agent), maxAgent)])
}

// byScript reports whether a script, not the user, may have sent a request: for a part of a page, or a chart.
func byScript(c echo.Context) bool {
	r := c.Request()
	chart := r.Header.Get(echo.HeaderAccept) == echo.MIMEApplicationJSON
	return r.Method == http.MethodGet && (page.IsFragment(c) || chart)
}

func describeSession(key string, values map[string]any) sessionLine {
	sum := sha256.Sum256([]byte("session " + key))
	text := func(name string) string { s, _ := values[name].(string); return s }
	at := func(name string) time.Time { n, _ := values[name].(int64); return time.Unix(n, 0) }
	return sessionLine{
		ID: hex.EncodeToString(sum[:12]), User: cmp.Or(text(keyUser), text(keyPending)), waiting: text(keyUser) == "",
		Address: text(keyAddress), Agent: text(keyAgent), Since: at(keySince), Seen: at(keySeen),
		own: text(keyOwn),
	}
}

// listSessions returns the signed-in sessions of a user, or of all users, the last used first.
func (h *Handler) listSessions(c echo.Context, user string) ([]sessionLine, error) {
	var list []sessionLine
	err := h.eachSession(c, func(_ string, s sessionLine) error {
		if !s.waiting && (user == "" || s.User == user) {
			list = append(list, s)
		}
		return nil
	})
	slices.SortFunc(list, func(x, y sessionLine) int { return y.Seen.Compare(x.Seen) })
	return list, err
}

// endSessions ends the chosen sessions, including sign-ins that wait for their code.
func (h *Handler) endSessions(c echo.Context, chosen func(sessionLine) bool) error {
	return h.eachSession(c, func(key string, s sessionLine) error {
		if !chosen(s) {
			return nil
		}
		_, err := h.Sessions.store.end(c.Request().Context(), key)
		return err
	})
}

// eachSession iterates over the store itself: the manager's Iterate would hash keys that are already hashes.
func (h *Handler) eachSession(c echo.Context, do func(key string, s sessionLine) error) error {
	all, err := h.Sessions.store.sessions.All(c.Request().Context())
	if err != nil {
		return fmt.Errorf("list the sessions: %w", err)
	}
	own := h.Sessions.GetString(c.Request().Context(), keyOwn)
	for key, data := range all {
		_, values, err := h.Sessions.Codec.Decode(data)
		if err != nil {
			return fmt.Errorf("read a session: %w", err)
		}
		s := describeSession(key, values)
		if s.User == "" {
			continue // somebody is on the sign-in page
		}
		s.Current = s.own != "" && s.own == own
		if err := do(key, s); err != nil {
			return fmt.Errorf("end a session: %w", err)
		}
	}
	return nil
}

// keyOwn stores a random text in each session. It identifies the request's own session among the stored ones.
const keyOwn = "own"
