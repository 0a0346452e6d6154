package master

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"net"
	"os"
	"time"
)

// Options configure a master.
type Options struct {
	DataDir         string
	Version         string // version of this binary
	Executable      string // path of the children's binary; if it is replaced, later children run the new one
	ShutdownTimeout time.Duration
	AnswerWithin    time.Duration // see process.killSilent; default 10s
	Roles           []RoleSpec    // in the order of starting and stopping
	Redis           RedisOptions
	MetricsAddr     string
	API             string                  // URL of the API, for commands on this host
	Passed          []net.Listener          // sockets from the service manager, used by listeners with the same address
	Reload          func() (Options, error) // reads the configuration again; an error changes nothing
	Kill            <-chan struct{}         // closed to stop immediately
	Ready           func()                  // called once, when all children serve; may be nil
	Logger          *slog.Logger
}

// RoleSpec describes a kind of child.
type RoleSpec struct {
	Name      string
	Count     int
	Numbered  bool // "dispatcher 2" rather than "server"
	Listeners []ListenSpec
	Health    string // see Process; its port is that of the first listener
	Config    json.RawMessage
}

// ListenSpec describes a socket that the master holds for a role.
type ListenSpec struct {
	Name string
	Key  string // configuration key, for errors
	Addr string
	// Optional: if a start cannot listen here, it continues without this socket. A reload is refused, which changes
	// nothing.
	Optional bool
}

// RedisOptions configure the managed redis-server.
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
	if o.AnswerWithin <= 0 {
		o.AnswerWithin = 10 * time.Second
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
