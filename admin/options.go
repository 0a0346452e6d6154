package admin

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"time"

	"github.com/wakecall/wakecall/admin/access"
	"github.com/wakecall/wakecall/admin/figures"
	"github.com/wakecall/wakecall/admin/jobs"
	"github.com/wakecall/wakecall/admin/overview"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/admin/schedules"
	"github.com/wakecall/wakecall/admin/shards"
	"github.com/wakecall/wakecall/admin/topics"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/alert"
	"github.com/wakecall/wakecall/internal/bulk"
	"github.com/wakecall/wakecall/internal/observe/refusals"
	"github.com/wakecall/wakecall/internal/observe/relays"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/signin"
	"github.com/wakecall/wakecall/internal/store"
)

// Options are the settings and dependencies of an Admin. New passes each area what it needs.
type Options struct {
	Queue     Queue
	Registry  *registry.Registry
	Editor    Editor
	Schedules schedules.Schedules
	Accounts  *account.Store
	Sessions  access.SessionStore
	SignIn    *signin.Provider // by an identity provider; nil: only local users can sign in
	Tasks     *bulk.Runner
	TokenUses registry.QuotaUse // nil: not shown
	Search    jobs.Searcher     // of the journals
	Master    shards.Master
	Config    *conf.Config
	History   figures.History
	Activity  topics.Activity
	Alerts    *alert.Store
	// Refused returns the last streak of refused pushes; nil: they are not shown.
	Refused func(context.Context) (refusals.Streak, error)
	// Relays returns the last reports about outbox tables; nil: they are not shown.
	Relays func(context.Context) ([]relays.Relay, error)
	Caller topics.Caller // makes test callbacks

	BasePath        string // path prefix of all pages: / or /wakecall
	Proxies         page.Proxies
	TLS             *tls.Config // nil: plain HTTP
	ShutdownTimeout time.Duration
	Version         string
	Log             *slog.Logger
	Now             func() time.Time

	Host      string // this host
	APIURL    string // the server's address, for command lines to copy: http://127.0.0.1:6789
	AdminURL  string // this admin's public address, for links in test messages
	TokenFile string // file of the first API token, for command lines to copy

	// OpenShard connects to a shard as the processes do, for a connection test.
	OpenShard func(context.Context, registry.Shard) (shard *store.Shard, closeShard func(), err error)
	Web       *http.Client // for tests of webhooks
	// SendMail sends a test message; nil: alert.SendMail.
	SendMail func(ctx context.Context, m alert.Mail, to string, message *alert.Message) error
	Patience time.Duration // see jobs.Options
}

// Queue is the part of the queue that the areas use.
type Queue interface {
	figures.Queue
	jobs.Queue
	overview.Queue
	shards.Queue
	topics.Queue
}

// Editor validates and stores topics and shards.
type Editor interface {
	shards.Editor
	topics.Editor
}
