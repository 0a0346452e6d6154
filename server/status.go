package server

import (
	_ "embed"
	"errors"
	"net/http"
	"syscall"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

//go:embed openapi.yaml
var openAPI []byte

// OpenAPI returns the API's description (OpenAPI 3.1, YAML).
func OpenAPI() []byte { return openAPI }

var yamlType = []string{"application/yaml"}

// alive answers while the process runs.
func (s *Server) alive(c echo.Context) error {
	return write(c, http.StatusOK, jsonType, []byte(`{"status":"ok"}`))
}

// ready reports whether the server can accept a push.
func (s *Server) ready(c echo.Context) error {
	if s.draining.Load() {
		return unavailable(nil, time.Second, "server is stopping")
	}
	if err := s.healthy(); err != nil { // not shown to clients, because it names files
		why := ""
		if errno := syscall.Errno(0); errors.As(err, &errno) {
			why = ": " + errno.Error()
		}
		return unavailable(err, 5*time.Second, "journal not writable, so nothing is accepted%s", why)
	}
	if err := s.jobs.Ready(); err != nil {
		why := ""
		if store.Forbidden(err) {
			why = ": the Redis user lacks permissions (ACL)"
		}
		return unavailable(err, time.Second, "no shard accepts pushes%s", why)
	}
	return write(c, http.StatusOK, jsonType, []byte(`{"status":"ready"}`))
}

func (s *Server) openAPI(c echo.Context) error {
	c.Response().Header().Set(echo.HeaderCacheControl, "no-cache")
	return write(c, http.StatusOK, yamlType, openAPI)
}

// shardView is a shard without its URL, which may contain a password. The numbers of one that is not up are unknown.
type shardView struct {
	Name  string `json:"name"`
	State string `json:"state"`
	Up    bool   `json:"up"`
	Error string `json:"error,omitzero"`
	*shardNumbers
}

type shardNumbers struct {
	Latency   float64 `json:"latency"` // seconds
	Memory    int64   `json:"memory"`  // bytes
	MaxMemory int64   `json:"max_memory"`
	Jobs      int64   `json:"jobs"`
	Moved     int64   `json:"moved,omitzero"`
}

func (s *Server) shards(c *call) error {
	views := []shardView{}
	for _, h := range s.jobs.Health(c.ctx()) {
		views = append(views, viewOfShard(&h))
	}
	// The queue has no offline shards.
	for _, shard := range s.registry.Snapshot().Shards {
		if shard.State == registry.ShardOffline {
			views = append(views, shardView{Name: shard.Name, State: string(shard.State), Error: "offline"})
		}
	}
	return s.answer(c, http.StatusOK, map[string]any{"shards": views})
}

func viewOfShard(h *store.ShardHealth) shardView {
	v := shardView{Name: h.Name, State: h.State, Up: h.Up, Error: h.Err}
	if h.Up {
		v.shardNumbers = &shardNumbers{h.Latency.Seconds(), h.Memory, h.MaxMemory, h.Jobs, h.Moved}
	}
	return v
}
