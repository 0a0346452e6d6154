package delayqueue

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// popWait is how long a pop waits for a job. Clients time out after 180 s.
const popWait = 178 * time.Second

// Messages of answers, as in delay-queue.
const (
	done       = "操作成功"
	added      = "添加成功"
	notAdded   = "添加失败"
	notPopped  = "获取Job失败"
	notDeleted = "删除失败"
	notFetched = "查询失败"
	notDone    = "操作失败"
	notRead    = "读取request body失败"
	notJSON    = "解析json失败"
	noID       = "job id不能为空"
	noTopic    = "topic 不能为空"
	noPopTopic = "topic不能为空"
	wrongDelay = "delay 取值范围1 - (2^31 - 1)"
	wrongTTR   = "ttr 取值范围1 - 86400"
	maxDelay   = 1 << 31
	maxTTR     = 86400
)

const contentType = "text/plain; charset=utf-8"

// A Gateway serves the protocol.
type Gateway struct {
	*gateway.Endpoint
	jobs    *jobs
	topics  func() *registry.Snapshot
	maxBody int64 // limit of a job's body in bytes
	popWait time.Duration
}

// New returns a gateway that accepts jobs of maxBody bytes even if each byte is escaped in JSON. So it accepts longer
// jobs if they need no escapes.
func New(e *gateway.Endpoint, q Queue, w gateway.Workers, topics func() *registry.Snapshot, maxBody int64) *Gateway {
	return &Gateway{Endpoint: e, jobs: newJobs(q, w), topics: topics, maxBody: maxBody, popWait: popWait}
}

// Serve serves a listener until ctx is done.
func (g *Gateway) Serve(ctx context.Context, l net.Listener) error {
	return g.HTTP(ctx, l, g.handler())
}

func (g *Gateway) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/push", answered(g, g.push))
	mux.HandleFunc("/pop", answered(g, g.pop))
	mux.HandleFunc("/finish", answered(g, g.remove))
	mux.HandleFunc("/delete", answered(g, g.remove))
	mux.HandleFunc("/get", answered(g, g.get))
	mux.HandleFunc("/command", g.command)
	return mux
}

type answer struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data"`
}

// failure is an error message for the client.
type failure string

func (f failure) Error() string { return string(f) }

// answered returns a handler from a function that turns a request's body into the answer's message and data. The client
// gets the failure in the function's error; any other error is also logged.
func answered[In any](g *Gateway, f func(context.Context, In) (string, any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		var in In
		var out answer
		err := g.read(w, r, &in)
		if err == nil {
			gateway.Patient(w, r)
			out.Message, out.Data, err = f(r.Context(), in)
		}
		if err != nil {
			out = answer{Code: 1, Message: g.textOf(r, err)}
		}
		g.Observe(r.Pattern[1:], gateway.ResultOf(err), began)
		popped, _ := out.Data.(poppedJob)
		g.write(w, r, out, popped.lease)
	}
}

// textOf returns the message that the client gets for an error.
func (g *Gateway) textOf(r *http.Request, err error) string {
	var f failure
	if !errors.As(err, &f) {
		f = notDone
	}
	if err != error(f) && r.Context().Err() == nil { //nolint:errorlint // a failure with a cause is logged
		g.Log.Error("request failed", "path", r.URL.Path, "error", err)
	}
	return string(f)
}

func (g *Gateway) read(w http.ResponseWriter, r *http.Request, into any) error {
	// A body of n bytes takes at most 6n bytes as JSON.
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 6*g.maxBody+4096))
	if err != nil {
		return errors.Join(failure(notRead), err)
	}
	// encoding/json would replace invalid UTF-8.
	if !utf8.Valid(text) || json.Unmarshal(text, into) != nil {
		return failure(notJSON)
	}
	return nil
}

// write answers a request. A job that does not reach its client is released without counting an attempt.
func (g *Gateway) write(w http.ResponseWriter, r *http.Request, out any, lease *store.Lease) {
	if gateway.WriteJSON(w, contentType, http.StatusOK, out) != nil && lease != nil {
		g.Release(r.Context(), g.jobs.queue, []store.Job{{Lease: lease}})
	}
}

// failed returns a failure whose cause is logged.
func failed(text failure, cause error) error { return errors.Join(text, cause) }
