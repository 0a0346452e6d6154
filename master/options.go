package master

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"net"
	"os"
	"time"
)

// Options of a master.
type Options struct {
	DataDir         string
	Version         string // of this binary
	Executable      string // of the children; a path, so that later children run a new binary installed there
	ShutdownTimeout time.Duration
	Roles           []RoleSpec // in the order in which they are started; they are stopped in this order, too
	Redis           RedisOptions
	MetricsAddr     string
	Passed          []net.Listener          // by the service manager, for listeners that have their addresses
	Reload          func() (Options, error) // reads the configuration again; an error keeps everything as it is
	Kill            <-chan struct{}         // closed: stop at once
	Ready           func()                  // called once, when all children serve; may be nil
	Logger          *slog.Logger
}

// RoleSpec is one kind of child.
type RoleSpec struct {
	Name      string
	Count     int
	Numbered  bool // "dispatcher 2" rather than "server"
	Listeners []ListenSpec
	Config    json.RawMessage
}

// ListenSpec is a socket that the master holds for a role.
type ListenSpec struct {
	Name string
	Key  string // of the configuration, for errors
	Addr string
}

// RedisOptions are about the managed redis-server.
type RedisOptions struct {
	Managed   bool
	Binary    string
	Dir       string
	Socket    string
	MaxMemory int64 // bytes; 0: no limit
}

func (o *Options) setDefaults() error {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.ShutdownTimeout <= 0 {
		o.ShutdownTimeout = 30 * time.Second
	}
	if o.Executable == "" {
		path, err := os.Executable()
		if err != nil {
			return err
		}
		o.Executable = path
	}
	return nil
}
