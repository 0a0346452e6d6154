package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/wakecall/wakecall/internal/observe/forecast"
	"github.com/wakecall/wakecall/internal/observe/waits"
	"github.com/wakecall/wakecall/internal/queue/answers"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// Jobs is the part of the queue that the API needs. After a push, it may keep using the body only if it returned an
// error.
type Jobs interface {
	Push(ctx context.Context, p store.Push) store.Result
	PushBatch(ctx context.Context, pushes []store.Push) []store.Result
	Get(ctx context.Context, topic, id string, also ...store.State) (*store.Job, error)
	List(ctx context.Context, topic string, state store.State, cursor string, limit int) ([]store.Job, string, error)
	ListFinished(ctx context.Context, topic, prefix, cursor string, limit int) ([]store.Job, string, error)
	Stats(ctx context.Context, topics []string) (map[string]store.Stats, error)
	Change(ctx context.Context, topic, id string, change store.Change) (*store.Job, error)
	Delete(ctx context.Context, topic, id string, m store.Match) error
	RunNow(ctx context.Context, topic, id string, m store.Match) (*store.Job, error)
	Resend(ctx context.Context, topic, id string) (*store.Job, error)
	EndDead(ctx context.Context, c store.DeadCall) (int, error)
	DropTopic(ctx context.Context, topic string) (int, error)
	Health(ctx context.Context) []store.ShardHealth
	Ready() error
	DownFor(topic, id string) (shards []string)
	Find(ctx context.Context, refs []store.Ref) ([]*store.Job, error)
}

// Tokens manages the API's tokens.
type Tokens interface {
	ListTokens() []*registry.Token
	CreateToken(ctx context.Context, actor, name string, rights []registry.Right, topics []string, expires *time.Time,
		with ...func(*registry.Token)) (secret string, t *registry.Token, err error)
	SetQuotas(ctx context.Context, actor string, id uint64, q *registry.Quotas) error
	RevokeToken(ctx context.Context, actor string, id uint64) error
	TokenUses(ctx context.Context) (map[uint64]time.Time, error)
	NoteTokenUses(ctx context.Context, ids []uint64, at time.Time) error
}

// Registry is the part of the registry that the API needs.
type Registry interface {
	Snapshot() *registry.Snapshot
	Refresh(ctx context.Context) // reads changes made by other processes
	PutTopics(
		ctx context.Context, actor string, topics []registry.Topic, conditions ...registry.Condition,
	) ([]registry.Done, error)
	DeleteTopic(ctx context.Context, actor, name string, force bool, conditions ...registry.Condition) error
	SetPauseReason(ctx context.Context, actor, topic, reason string) error
	PauseTopic(ctx context.Context, actor, topic string, p registry.Pause) error
	ResumeTopic(ctx context.Context, actor, topic string) error
	Tokens
	Up() bool // reports whether the database answers
}

// Limits bounds what clients may send and hold. Zero fields take their defaults.
type Limits struct {
	MaxBody       int           // bytes of a job's body; default 256 KiB
	MaxBatch      int           // jobs of a batch; default 1,000
	MaxTopics     int           // topics of a reserve; default 250
	MaxSchedules  int           // that a token may have made; default 1,000
	MaxBatchBytes int64         // bytes of a batch's request; default 64 MiB
	MaxBuffered   int64         // bytes of all large requests in progress; default 256 MiB
	MaxHeader     int           // bytes of a request's header; default 16 KiB
	MaxConns      int           // connections; see listen.Options
	HeaderTimeout time.Duration // for a request's header; default 5s
	ReadTimeout   time.Duration // for its body; default 30s
	BodyGrace     time.Duration // time after which a body must average 1 KiB/s; default 5s
	WriteTimeout  time.Duration // from the end of its header to the end of its answer; default 60s
	StallTimeout  time.Duration // for an HTTP/2 client that does not read; default 15s
	IdleTimeout   time.Duration // of a kept connection; default 90s
}

func (l Limits) withDefaults() Limits {
	l.MaxBody = cmp.Or(l.MaxBody, 256<<10)
	l.MaxBatch = cmp.Or(l.MaxBatch, 1000)
	l.MaxTopics = cmp.Or(l.MaxTopics, 250)
	l.MaxSchedules = cmp.Or(l.MaxSchedules, 1000)
	l.MaxBatchBytes = cmp.Or(l.MaxBatchBytes, 64<<20)
	l.MaxBuffered = cmp.Or(l.MaxBuffered, 256<<20)
	l.MaxHeader = cmp.Or(l.MaxHeader, 16<<10)
	l.HeaderTimeout = cmp.Or(l.HeaderTimeout, 5*time.Second)
	l.ReadTimeout = cmp.Or(l.ReadTimeout, 30*time.Second)
	l.BodyGrace = cmp.Or(l.BodyGrace, 5*time.Second)
	l.WriteTimeout = cmp.Or(l.WriteTimeout, time.Minute)
	l.StallTimeout = cmp.Or(l.StallTimeout, 15*time.Second)
	l.IdleTimeout = cmp.Or(l.IdleTimeout, 90*time.Second)
	return l
}

// Options of a Server. Jobs, Groups, Schedules, Tasks, Workers and Registry are required; the rest has defaults.
type Options struct {
	Jobs   Jobs
	Groups Groups
	Relays Relays // nil: the routes of relays answer 404

	Schedules Schedules
	Tasks     Tasks
	Meter     Meter             // may be nil while no token has quotas
	Uses      registry.QuotaUse // nil: not shown

	Answers  *answers.Hub // lets pushes wait for the ends of jobs; nil: they only see them when their time is over
	Waits    waits.Queue  // nil: answers do not say why a job waits
	Registry Registry
	Workers  Workers
	Search   Searcher // nil: nothing is searched
	Alerts   Alerts   // nil: requests for alerts fail
	// Healthy returns the journal's error. While there is one, pushes and edits are refused.
	Healthy func() error
	// Refused counts a push that was refused for a reason before it came to Jobs; nil: it is not counted.
	Refused func(topic, reason string)
	// Forecast says when the waiting jobs of a topic are cleared; nil: always unknown.
	Forecast func(ctx context.Context, t *registry.Topic) (forecast.Answer, error)
	Limits   Limits
	// The following fields are those of listen.Options.
	TLS             *tls.Config
	ShutdownTimeout time.Duration
	LameDuck        time.Duration
	Replaced        func() bool

	Version    string
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil: metrics are not exported
	// MetricTopics limits the topics with their own metrics; 0: 1,000.
	MetricTopics int
	Now          func() time.Time // nil: time.Now
	Dev          Dev              // of an installation for tests; nil: it is none
}

// Server is the HTTP API.
type Server struct {
	jobs     Jobs
	registry Registry
	healthy  func() error
	limits   Limits
	opts     Options
	log      *slog.Logger
	echo     *echo.Echo
	metrics  *counters
	answers  *answers.Hub
	buffers  *buffers
	docs     *docs
	uses     tokenUses
	searches sync.Map // tokens with a search under way, by ID
	draining atomic.Bool
	stopping context.Context // done when the server begins to stop
	stop     context.CancelFunc
}

// New returns a server. It fails if the metrics are already registered, or an embedded file is invalid.
func New(opts Options) (*Server, error) {
	s := &Server{
		jobs: opts.Jobs, registry: opts.Registry, healthy: opts.Healthy,
		limits: opts.Limits.withDefaults(), opts: opts, log: cmp.Or(opts.Logger, slog.New(slog.DiscardHandler)),
	}
	if s.jobs == nil || s.registry == nil || opts.Workers == nil {
		return nil, errors.New("server: Jobs, Workers and Registry are required")
	}
	if s.opts.Forecast == nil {
		s.opts.Forecast = func(context.Context, *registry.Topic) (forecast.Answer, error) {
			return forecast.Answer{Reason: forecast.Unmeasured}, nil
		}
	}
	if s.healthy == nil {
		s.healthy = func() error { return nil }
	}
	if s.answers = opts.Answers; s.answers == nil {
		s.answers = answers.New(answers.Options{})
	}
	s.stopping, s.stop = context.WithCancel(context.Background())
	if s.opts.Now == nil {
		s.opts.Now = time.Now
	}
	s.buffers = newBuffers(s.limits.MaxBuffered)
	var err error
	if s.metrics, err = newCounters(opts.Registerer, opts.MetricTopics, s.answers); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	if s.docs, err = newDocs(opts.Version); err != nil {
		return nil, fmt.Errorf("prepare /docs: %w", err)
	}
	s.echo = echo.New()
	s.echo.HTTPErrorHandler = s.fail
	s.echo.Use(s.middleware)
	s.routes()
	return s, nil
}

// ServeHTTP answers one request. HEAD is served as GET; net/http omits the body.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodHead {
		get := *r // a copy, because net/http must still see HEAD
		get.Method = http.MethodGet
		r = &get
	}
	s.echo.ServeHTTP(w, r)
}
