package listen

import (
	"cmp"
	"crypto/tls"
	"time"
)

// Options of a listener. Zero fields take their default.
type Options struct {
	MaxConns        int           // default 8,192, and never more than the descriptors allow
	ShutdownTimeout time.Duration // default 30s
	// Replaced says, when the process stops, whether another one serves the same socket already. nil: none does.
	Replaced func() bool

	// Of HTTP only.

	TLS      *tls.Config   // nil: plain HTTP
	LameDuck time.Duration // how long a stopping listener still accepts; default 500ms, negative: not at all
	Draining func()        // called when the stop begins; may be nil
	Refusal  Refusal       // answers what net/http refuses; nil: net/http does
}

func (o Options) withDefaults() Options {
	o.MaxConns = cmp.Or(o.MaxConns, 8192)
	o.ShutdownTimeout = cmp.Or(o.ShutdownTimeout, 30*time.Second)
	o.LameDuck = cmp.Or(o.LameDuck, 500*time.Millisecond)
	return o
}

func (o *Options) isReplaced() bool { return o.Replaced != nil && o.Replaced() }

// linger is how long a replaced process waits for one more request on each kept connection. When a connection was idle
// for so long, a request that crosses its end is very unlikely.
func (o *Options) linger() time.Duration { return min(10*time.Second, o.ShutdownTimeout/3) }
