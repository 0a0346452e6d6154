package grape

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/wakecall/wakecall/gateway"
)

// Codes of errors in a login.
const (
	codeNoUser     = 3000
	codeNoPassword = 3001
	codeLogin      = 3002
	codeWait       = 3003 // not in Grape
)

const (
	sessionCookie = "grape.session"
	maxLogin      = 4 << 10 // bytes
)

// A Web serves the API of Grape's web page: the login, and tubes for users who are logged in.
type Web struct {
	gateway  *Gateway
	accounts *gateway.Accounts
	now      func() time.Time
}

// NewWeb returns a Web for these users.
func NewWeb(g *Gateway, accounts *gateway.Accounts) *Web {
	return &Web{gateway: g, accounts: accounts, now: time.Now}
}

// Serve serves a listener until ctx is done.
func (s *Web) Serve(ctx context.Context, l net.Listener) error {
	return s.gateway.HTTP(ctx, l, s.handler())
}

func (s *Web) handler() http.Handler {
	behind := http.NewServeMux()
	for path, route := range s.gateway.routes() {
		if strings.HasPrefix(path, "/api/tube/") {
			behind.HandleFunc(path, s.gateway.serve(route))
		}
	}
	behind.HandleFunc("/", s.gateway.unknownPath)
	mux := http.NewServeMux()
	mux.HandleFunc("/api/authen/login", s.gateway.serve(route{http.MethodPost, s.login}))
	mux.HandleFunc("/api/authen/logout", s.gateway.serve(route{http.MethodGet, s.logout}))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if c, err := r.Cookie(sessionCookie); err != nil || !s.valid(c.Value) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		behind.ServeHTTP(w, r)
	})
	return mux
}

// login answers with a new session's id, which it also sets as a cookie.
func (s *Web) login(r *request) (any, error) {
	var in struct{ Username, Password string }
	_ = json.NewDecoder(http.MaxBytesReader(r.w, r.Body, maxLogin)).Decode(&in) // on error the user is empty
	switch {
	case in.Username == "":
		return nil, bad(codeNoUser, "username is empty")
	case in.Password == "":
		return nil, bad(codeNoPassword, "password is empty")
	}
	ok, wait := s.accounts.Admit(r.Request, in.Username, in.Password)
	if wait > 0 {
		seconds := gateway.RetryAfter(r.w, wait)
		return nil, problem(http.StatusTooManyRequests, codeWait, "too many wrong logins: try again in "+seconds+" s")
	}
	if !ok {
		return nil, bad(codeLogin, "username or password is error")
	}
	id, err := s.begin(r.Context(), in.Username)
	if err != nil {
		return nil, err
	}
	http.SetCookie(r.w, cookie(id, int(sessionLife.Seconds())))
	return id, nil
}

func (s *Web) logout(r *request) (any, error) {
	http.SetCookie(r.w, cookie("", -1))
	if c, err := r.Cookie(sessionCookie); err == nil && s.valid(c.Value) {
		return nil, s.end(r.Context(), c.Value)
	}
	return nil, nil
}

func cookie(id string, seconds int) *http.Cookie {
	return &http.Cookie{
		Name: sessionCookie, Value: id, Path: "/", MaxAge: seconds, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}
}
