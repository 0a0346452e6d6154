package grape

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/internal/store"
)

// Queue is the part of a queue.Queue that the gateway needs.
type Queue interface {
	Push(ctx context.Context, p store.Push) store.Result
	Take(ctx context.Context, r store.TakeRequest) ([]store.Job, error)
	End(ctx context.Context, list []store.End) []store.Ended
	Get(ctx context.Context, topic, id string, also ...store.State) (*store.Job, error)
	List(ctx context.Context, topic string, state store.State, cursor string, limit int) ([]store.Job, string, error)
	Stats(ctx context.Context, topics []string) (map[string]store.Stats, error)
	DropTopic(ctx context.Context, topic string) (int, error)
}

// Registry is the part of the registry that the gateway needs. It stores the list of tubes in a setting.
type Registry interface {
	gateway.Registry
	Refresh(ctx context.Context) // reads changes made by other processes
}

// A Gateway serves the protocol.
type Gateway struct {
	*gateway.Endpoint
	queue    Queue
	registry Registry
	maxBody  int64 // limit of a job's body in bytes
}

// New returns a gateway that accepts jobs of up to maxBody bytes.
func New(e *gateway.Endpoint, q Queue, r Registry, maxBody int64) *Gateway {
	return &Gateway{e, q, r, maxBody}
}

// Serve serves a listener until ctx is done.
func (g *Gateway) Serve(ctx context.Context, l net.Listener) error {
	return g.HTTP(ctx, l, g.handler())
}

func (g *Gateway) handler() http.Handler {
	mux := http.NewServeMux()
	for path, route := range g.routes() {
		mux.HandleFunc(path, g.serve(route))
	}
	mux.HandleFunc("/", g.unknownPath)
	return mux
}

func (g *Gateway) unknownPath(w http.ResponseWriter, r *http.Request) {
	g.fail(w, r, problem(http.StatusNotFound, http.StatusNotFound, "invalid path:"+r.URL.Path))
}

// route is a route's method and handler.
type route struct {
	method string
	handle func(*request) (any, error)
}

func (g *Gateway) routes() map[string]route {
	return map[string]route{
		"/api/job/produce":       {http.MethodPost, g.produce},
		"/api/job/delete":        {http.MethodDelete, g.ends(store.Done, store.Delayed, store.Ready)},
		"/api/job/consume":       {http.MethodGet, g.consume},
		"/api/job/finish":        {http.MethodDelete, g.ends(store.Done, store.Running)},
		"/api/job/release":       {http.MethodPut, g.delaying(store.Fail, "released", store.Running)},
		"/api/job/bury":          {http.MethodPut, g.ends(store.Bury, store.Running)},
		"/api/job/failure":       {http.MethodPut, g.ends(store.Bury, store.Running)},
		"/api/job/peek":          {http.MethodGet, g.peek},
		"/api/job/kick":          {http.MethodPut, g.delaying(store.Release, "kicked", store.Dead)},
		"/api/job/discard":       {http.MethodDelete, g.ends(store.Done, store.Dead)},
		"/api/tube/create":       {http.MethodPost, g.createTube},
		"/api/tube/delete":       {http.MethodPost, g.deleteTube},
		"/api/tube/list":         {http.MethodGet, g.listTubes},
		"/api/tube/stats":        {http.MethodGet, g.allStats},
		"/api/tube/stats/{name}": {http.MethodGet, g.statsOf},
	}
}

func (g *Gateway) serve(rt route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != rt.method {
			w.Header().Set("Allow", rt.method)
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		began := time.Now()
		in := &request{Request: r, w: w, query: r.URL.Query(), maxBody: g.maxBody}
		value, err := rt.handle(in)
		g.Observe(r.Pattern[len("/api/"):], gateway.ResultOf(err), began)
		if err != nil {
			g.fail(w, r, err)
			return
		}
		if answer(w, http.StatusOK, value) != nil {
			g.Release(r.Context(), g.queue, in.taken)
		}
	}
}

// problem returns an error with a code for the client.
func problem(status, code int, desc string) *gateway.Problem {
	return &gateway.Problem{Status: status, Body: struct {
		Code int    `json:"code"`
		Desc string `json:"desc"`
	}{code, desc}}
}

func bad(code int, desc string) error { return problem(http.StatusBadRequest, code, desc) }

// faultCode is the code for all errors that the client did not cause.
const faultCode = 9999

func (g *Gateway) fail(w http.ResponseWriter, r *http.Request, err error) {
	var p *gateway.Problem
	if !errors.As(err, &p) {
		desc := "internal error"
		if errors.As(err, new(*store.UnavailableError)) {
			desc = err.Error()
		}
		p = problem(http.StatusInternalServerError, faultCode, desc)
		if r.Context().Err() == nil {
			g.Log.Error("request failed", "method", r.Method, "path", r.URL.Path, "error", err)
		}
	}
	_ = answer(w, p.Status, p.Body) // the client may have disconnected
}

func answer(w http.ResponseWriter, status int, value any) error {
	return gateway.WriteJSON(w, "application/json", status, value)
}
