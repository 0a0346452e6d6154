package lmstfy

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/gateway"
)

func (g *Gateway) adminHandler() http.Handler {
	mux := http.NewServeMux()
	for pattern, handle := range map[string]func(*http.Request) (reply, error){
		"GET /token/{ns}":                  g.listTokens,
		"POST /token/{ns}":                 g.newToken,
		"DELETE /token/{ns}/{token}":       g.deleteToken,
		"POST /token/{ns}/{token}/limit":   g.addLimit,
		"PUT /token/{ns}/{token}/limit":    g.setLimit,
		"GET /token/{ns}/{token}/limit":    g.getLimit,
		"DELETE /token/{ns}/{token}/limit": g.deleteLimit,
		"GET /limits":                      g.listLimits,
		"POST /accesslog":                  g.setAccessLog,
	} {
		mux.Handle(pattern, g.authorized(g.administer(handle)))
	}
	for pattern, handle := range map[string]func(*http.Request) (reply, error){
		"GET /pools":     g.listPools,
		"GET /version":   g.version,
		"GET /info":      g.info,
		"GET /accesslog": g.accessLog,
	} {
		mux.Handle(pattern, g.administer(handle))
	}
	// While shards are down, only the sizes are missing.
	mux.Handle("GET /metrics", promhttp.HandlerFor(g.metrics.registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError,
	}))
	mux.Handle("GET /pools/{$}", http.RedirectHandler("/pools", http.StatusMovedPermanently))
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "404 page not found", http.StatusNotFound)
	})
	return identified(g.named(mux))
}

// named requires, without accounts, that the request names this machine. Otherwise any site could use the admin API
// through a user's browser, by a name that it lets resolve to this machine (DNS rebinding).
func (g *Gateway) named(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.Accounts == nil && !conf.IsLoopback(r.Host) {
			answer(w, http.StatusForbidden, object{"error": "the request is for the host " + strconv.Quote(r.Host) +
				"; without " + keyAccounts + ", only localhost and loopback addresses are served"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// authorized requires one of the accounts, if there are any.
func (g *Gateway) authorized(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ok, wait := g.admits(r)
		switch {
		case ok:
			next.ServeHTTP(w, r)
		case wait > 0:
			text := "too many wrong passwords: try again in " + gateway.RetryAfter(w, wait) + " s"
			answer(w, http.StatusTooManyRequests, object{"error": text})
		default:
			w.Header().Set("WWW-Authenticate", `Basic realm="Authorization Required"`)
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
}

// admits reports whether a request has the name and password of an account or, after too many wrong ones, how long the
// client must wait. A request without a name does not count as a guess: some clients send one first.
func (g *Gateway) admits(r *http.Request) (ok bool, wait time.Duration) {
	if g.Accounts == nil {
		return true, 0
	}
	user, password, sent := r.BasicAuth()
	if !sent {
		return false, 0
	}
	return g.Accounts.Admit(r, user, password)
}

// A reply is an answer of the admin API. lmstfy indents some of them.
type reply struct {
	status   int
	value    any
	indented bool
	text     bool // sent as text/plain
}

func (g *Gateway) administer(handle func(*http.Request) (reply, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
		out, err := handle(hr)
		if err != nil {
			r := &request{Request: hr, w: &statusWriter{ResponseWriter: w}, g: g}
			r.fail(err)
			return
		}
		out.write(w)
	})
}

func (out *reply) write(w http.ResponseWriter) {
	if out.status == http.StatusNoContent {
		w.WriteHeader(out.status)
		return
	}
	if !out.indented {
		answer(w, out.status, out.value)
		return
	}
	kind := jsonType
	if out.text {
		kind = "text/plain; charset=utf-8"
	}
	text, _ := json.MarshalIndent(out.value, "", "    ") // cannot fail
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(out.status)
	_, _ = w.Write(text) // the client may have disconnected
}

func ok(value any) (reply, error) { return reply{status: http.StatusOK, value: value}, nil }
func indented(value any) (reply, error) {
	return reply{status: http.StatusOK, value: value, indented: true}, nil
}

func (g *Gateway) listPools(*http.Request) (reply, error) { return indented(g.Pools) }

func (g *Gateway) version(*http.Request) (reply, error) {
	return indented(object{"version": g.Version, "build_commit": "", "build_date": ""})
}

// info returns the sizes of the queues that have jobs, by namespace.
func (g *Gateway) info(r *http.Request) (reply, error) {
	pool := cmp.Or(r.URL.Query().Get("pool"), g.Pools[0])
	if !g.hasPool(pool) {
		return ok(object{}) // an unknown pool has no queues
	}
	queues, err := g.queues(r.Context(), pool)
	return reply{status: http.StatusOK, value: queues, indented: true, text: true}, err
}

func (g *Gateway) accessLog(*http.Request) (reply, error) {
	if g.logged.Load() {
		return ok(object{"status": "enabled"})
	}
	return ok(object{"status": "disabled"})
}

func (g *Gateway) setAccessLog(r *http.Request) (reply, error) {
	switch r.URL.Query().Get("status") {
	case "enable":
		g.logged.Store(true)
	case "disable":
		g.logged.Store(false)
	default:
		return reply{}, bad("invalid status")
	}
	return g.accessLog(r)
}

// logAccess logs a request of the API, if the access log is enabled.
func (g *Gateway) logAccess(r *request, status int, began time.Time) {
	if !g.logged.Load() {
		return
	}
	g.Log.Info("request", "method", r.Method, "path", r.URL.Path, "status", status, "took", time.Since(began),
		"client", r.RemoteAddr)
}

// queues returns the queues of a pool that have jobs, by namespace.
func (g *Gateway) queues(ctx context.Context, pool string) (map[string][]string, error) {
	topics, err := g.Queue.Members(ctx, g.Pools.namespaceOf(pool))
	if err != nil {
		return nil, err
	}
	queues := map[string][]string{}
	for _, topic := range topics {
		namespace, name := namesOf(topic)
		queues[namespace] = append(queues[namespace], name)
	}
	return queues, nil
}
