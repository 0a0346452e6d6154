package lmstfy

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/internal/store"
)

// Options of a gateway.
type Options struct {
	Queue  Queue
	Tokens *Tokens
	Pools  poolList
	// Accounts may change tokens, limits and the access log. If nil, everybody may.
	Accounts *gateway.Accounts
	Workers  gateway.Workers
	Defaults Defaults
	Version  string
}

// A Gateway serves lmstfy's API and its admin API.
type Gateway struct {
	*gateway.Endpoint
	Options
	limits  *windows
	metrics *figures
	logged  atomic.Bool // the access log is enabled
}

// New returns a gateway.
func New(e *gateway.Endpoint, o Options) *Gateway {
	g := &Gateway{Endpoint: e, Options: o, limits: newWindows(time.Now), metrics: newFigures()}
	g.metrics.registry.MustRegister(sizes{g})
	return g
}

// Serve serves lmstfy's API on a listener until ctx is done.
func (g *Gateway) Serve(ctx context.Context, l net.Listener) error {
	return g.HTTP(ctx, l, g.handler())
}

// ServeAdmin serves lmstfy's admin API on a listener until ctx is done.
func (g *Gateway) ServeAdmin(ctx context.Context, l net.Listener) error {
	return g.HTTP(ctx, l, g.adminHandler())
}

// A request has passed the checks of its route.
type request struct {
	*http.Request
	w                      http.ResponseWriter
	query                  url.Values
	pool, namespace, token string
	queues                 []string // only a consume may have several
	known                  *Token   // nil if none is required
	g                      *Gateway
}

// topic returns the topic with the jobs of the request's first queue.
func (r *request) topic() string { return r.g.Pools.topicOf(r.pool, r.namespace, r.queues[0]) }

// refuse returns an error with a message for the client.
func refuse(status int, text string) error {
	return &gateway.Problem{Status: status, Body: object{"error": text}}
}

func bad(text string) error { return refuse(http.StatusBadRequest, text) }

// kind selects the limit of a token against which a request counts.
type kind string

const (
	free    kind = ""
	consume kind = "consume"
	produce kind = "produce"
)

// route is a route of the API. Names, pool, token and rate are checked in this order.
type route struct {
	name    string // for metrics
	pattern string
	handle  func(*request) error
	counts  kind
	public  bool // needs no token
}

func (g *Gateway) handler() http.Handler {
	mux := http.NewServeMux()
	for _, r := range []route{
		{name: "publish", pattern: "PUT /api/{ns}/{queue}", handle: g.publish, counts: produce},
		{name: "publish_bulk", pattern: "PUT /api/{ns}/{queue}/bulk", handle: g.publishBulk, counts: produce},
		{name: "republish", pattern: "PUT /api/{ns}/{queue}/job/{id}", handle: g.republish},
		{name: "consume", pattern: "GET /api/{ns}/{queue}", handle: g.consume, counts: consume},
		{name: "ack", pattern: "DELETE /api/{ns}/{queue}/job/{id}", handle: g.ack},
		{name: "peek", pattern: "GET /api/{ns}/{queue}/peek", handle: g.peek},
		{name: "peek_job", pattern: "GET /api/{ns}/{queue}/job/{id}", handle: g.peekJob},
		{name: "destroy", pattern: "DELETE /api/{ns}/{queue}", handle: g.destroy},
		{name: "size", pattern: "GET /api/{ns}/{queue}/size", handle: g.size, public: true},
		{name: "deadletter_size", pattern: "GET /api/{ns}/{queue}/deadletter/size", handle: g.deadSize, public: true},
		{name: "deadletter_peek", pattern: "GET /api/{ns}/{queue}/deadletter", handle: g.peekDead},
		{name: "respawn", pattern: "PUT /api/{ns}/{queue}/deadletter", handle: g.respawn},
		{name: "deadletter_delete", pattern: "DELETE /api/{ns}/{queue}/deadletter", handle: g.deleteDead},
	} {
		mux.Handle(r.pattern, g.serve(r))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusNotFound, object{"error": "api not found"})
	})
	return identified(exactPaths(mux))
}

// exactPaths rejects paths that http.ServeMux would redirect, and HEAD, which http.ServeMux treats as GET.
func exactPaths(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead || strings.Contains(r.URL.Path, "//") || strings.Contains(r.URL.Path, "/.") {
			answer(w, http.StatusNotFound, object{"error": "api not found"})
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// identified gives every answer an X-Request-ID.
func identified(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-ID", newID(time.Now(), 0))
		next.ServeHTTP(w, r)
	})
}

func (g *Gateway) serve(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
		counted := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		r := &request{Request: hr, w: counted, query: hr.URL.Query(), namespace: hr.PathValue("ns"), g: g}
		began := time.Now()
		err := g.checked(r, rt)
		if err != nil {
			r.fail(err)
		}
		g.Observe(rt.name, gateway.ResultOf(err), began)
		g.metrics.request(r, rt.name, counted.status, began)
		g.logAccess(r, counted.status, began)
	})
}

// checked runs the checks of a request and then its handler. A failed request does not count against its token's limit.
func (g *Gateway) checked(r *request, rt route) error {
	if err := r.checkNames(rt.counts == consume); err != nil {
		return err
	}
	if err := r.checkToken(rt.public); err != nil {
		return err
	}
	if rt.counts == free {
		return rt.handle(r)
	}
	giveBack, err := g.count(r, rt.counts)
	if err != nil {
		return err
	}
	err = rt.handle(r)
	if s := r.w.(*statusWriter).status; err != nil || s != http.StatusOK && s != http.StatusCreated {
		giveBack()
	}
	return err
}

var (
	oneName    = regexp.MustCompile(`^[-_A-Za-z0-9]+$`)
	queueNames = regexp.MustCompile(`^[-_,A-Za-z0-9]+$`)
)

const longestName = 255

func (r *request) checkNames(several bool) error {
	names := r.PathValue("queue")
	if !several && (len(r.namespace) > longestName || len(names) > longestName) {
		return bad("namespace or queue name too long")
	}
	if !oneName.MatchString(r.namespace) {
		return bad("namespace name contains forbidden characters")
	}
	if !several {
		r.queues = []string{names}
		if names[0] == '_' || !oneName.MatchString(names) {
			return bad("queue name contains forbidden characters")
		}
		return nil
	}
	if !queueNames.MatchString(names) {
		return bad("queue name contains forbidden characters")
	}
	for name := range strings.SplitSeq(names, ",") {
		if len(name) > longestName { // lmstfy does not check this, but such a queue cannot have jobs
			return bad("namespace or queue name too long")
		}
		if name != "" {
			r.queues = append(r.queues, name)
		}
	}
	return nil
}

// splitToken parses [POOL:]TOKEN.
func (g *Gateway) splitToken(text string) (pool, token string) {
	if pool, token, ok := strings.Cut(text, ":"); ok {
		return pool, token
	}
	return g.Pools[0], text
}

func (r *request) checkToken(public bool) error {
	text := cmp.Or(r.Header.Get("X-Token"), r.query.Get("token"))
	r.pool, r.token = r.g.splitToken(text)
	if !r.g.hasPool(r.pool) {
		return refuse(http.StatusNotFound, "pool not found")
	}
	if public {
		return nil
	}
	if r.token == "" {
		return refuse(http.StatusUnauthorized, "token not found")
	}
	known, err := r.g.Tokens.Find(r.pool, r.namespace, r.token)
	if err != nil {
		return err
	}
	if known == nil || known.LimitOnly {
		return refuse(http.StatusUnauthorized, "invalid token")
	}
	r.known = known
	return nil
}

func (g *Gateway) hasPool(name string) bool { return slices.Contains(g.Pools, name) }

// seconds parses a whole number of seconds from the query.
func (r *request) seconds(name string, missing time.Duration) (time.Duration, error) {
	n, err := r.number(name, uint64(missing/time.Second), 32)
	return time.Duration(n) * time.Second, err
}

func (r *request) number(name string, missing uint64, bits int) (uint64, error) {
	if !r.query.Has(name) {
		return missing, nil
	}
	n, err := strconv.ParseUint(r.query.Get(name), 10, bits)
	if err != nil {
		return 0, bad("invalid " + name)
	}
	return n, nil
}

const jsonType = "application/json; charset=utf-8"

// object is a JSON object. Its members are encoded in alphabetical order.
type object map[string]any

func (r *request) answer(status int, v any) error {
	answer(r.w, status, v)
	return nil
}

func answer(w http.ResponseWriter, status int, v any) {
	_ = gateway.WriteJSON(w, jsonType, status, v) // the client may have disconnected
}

// statusClosed is the status in logs and metrics when the client has disconnected.
const statusClosed = 499

// retryAfter is the default Retry-After when no shard can serve the client.
const retryAfter = time.Second

func (r *request) fail(err error) {
	var p *gateway.Problem
	var away *store.UnavailableError
	switch {
	case errors.As(err, &p):
		answer(r.w, p.Status, p.Body)
	case errors.Is(err, context.Canceled) && r.Context().Err() != nil:
		r.w.WriteHeader(statusClosed)
	case errors.As(err, &away):
		gateway.RetryAfter(r.w, cmp.Or(away.RetryAfter, retryAfter))
		answer(r.w, http.StatusServiceUnavailable, object{"error": err.Error()})
	default:
		r.g.Log.Error("request failed", "method", r.Method, "path", r.URL.Path, "error", err)
		answer(r.w, http.StatusInternalServerError, object{"error": "internal error"})
	}
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
