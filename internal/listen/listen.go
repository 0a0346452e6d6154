package listen

import (
	"cmp"
	"crypto/tls"
	"time"
)

// Options configure a listener. Zero fields have defaults.
type Options struct {
	MaxConns        int           // default 8,192, and at most what the descriptors allow
	ShutdownTimeout time.Duration // default 30s
	// Replaced reports, when the process stops, whether another process already serves the same socket. nil: none does.
	Replaced func() bool

	// For HTTP only.

	TLS *tls.Config // nil: plain HTTP
	// LameDuck is how long a stopping listener still accepts connections; default 500ms, negative: not at all.
	LameDuck time.Duration
	Draining func()  // called when the stop begins; may be nil
	Refusal  Refusal // answers requests that net/http rejects; nil: net/http does
}

func (o Options) withDefaults() Options {
	o.MaxConns = cmp.Or(o.MaxConns, 8192)
	o.ShutdownTimeout = cmp.Or(o.ShutdownTimeout, 30*time.Second)
	o.LameDuck = cmp.Or(o.LameDuck, 500*time.Millisecond)
	return o
}

func (o *Options) isReplaced() bool { return o.Replaced != nil && o.Replaced() }

// linger is how long a replaced process waits for one more request on each kept-alive connection. If a connection was
// idle for so long, a request is very unlikely to arrive just when it is closed.
func (o *Options) linger() time.Duration { return min(10*time.Second, o.ShutdownTimeout/3) }
