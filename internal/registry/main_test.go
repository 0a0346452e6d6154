package registry

import (
	"bytes"
	"context"
	"flag"
	"sync"
	"testing"

	"github.com/wakecall/wakecall/internal/registry/seal"
	"github.com/wakecall/wakecall/test/dbtest"
	"github.com/wakecall/wakecall/test/wait"
)

func TestMain(m *testing.M) {
	// The seeds differ from run to run. A -rapid.checks on the command line takes precedence.
	_ = flag.Set("rapid.checks", "40")
	dbtest.Main(m)
}

const patience = wait.Limit

var eventually = wait.For

// testKey is the key of all hosts of a test.
var testKey = seal.Key(bytes.Repeat([]byte("k"), seal.KeySize))

func open(t *testing.T, o Options) *Registry {
	t.Helper()
	if o.Migrate == MigrateNone {
		o.Migrate = MigrateOlder
	}
	if o.SecretKey == nil {
		o.SecretKey = testKey
	}
	r, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = r.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait(); _ = r.Close() })
	return r
}

func topic(name string) Topic {
	t := NewTopic(name)
	t.CallbackURL = "http://127.0.0.1:1/hook"
	return t
}

const (
	oneSecret     = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	anotherSecret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	thirdSecret   = "whsec_D3FVsBQIhrscChlQIMV+b5sSYspob7oE"
)

func put(t *testing.T, r *Registry, x Topic) {
	t.Helper()
	if _, err := r.PutTopic(t.Context(), "me", x); err != nil {
		t.Fatal(err)
	}
}
