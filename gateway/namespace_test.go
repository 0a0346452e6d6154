package gateway_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/test/pulltest"
)

// TestANamespaceIsMadeOnce: later changes of its settings are kept, and a gateway waits for the database.
func TestANamespaceIsMadeOnce(t *testing.T) {
	t.Parallel()
	q := pulltest.Start(t)
	e := pulltest.Endpoint(t, "grape")
	ensure := func(ctx context.Context, t registry.Topic) error {
		done := errors.New("served")
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		serve := func(_ context.Context, l net.Listener) error { return errors.Join(done, l.Close()) }
		if err = e.Ensured(q.Registry, serve, t)(ctx, l); errors.Is(err, done) {
			return nil
		}
		return err
	}
	ctx := t.Context()
	grapes := gateway.Namespace("grape.*", "Grape")
	if err := ensure(ctx, grapes); err != nil {
		t.Fatal(err)
	}
	made := *q.Registry.Snapshot().Topics.Get("grape.*")
	made.MaxInFlight = 7
	if _, err := q.Registry.PutTopic(ctx, "people", made); err != nil {
		t.Fatal(err)
	}
	if err := ensure(ctx, grapes); err != nil {
		t.Fatal(err)
	}
	if now := q.Registry.Snapshot().Topics.Get("grape.*"); now.MaxInFlight != 7 || now.MaxAttempts != 0 ||
		now.Delivery != registry.DeliveryPull {
		t.Errorf("the namespace is %+v", now)
	}
	err := ensure(ctx, gateway.Namespace("Wrong.*", ""))
	if err == nil || !strings.Contains(err.Error(), "Wrong.*") {
		t.Errorf("an invalid namespace: %v", err)
	}
	if err := q.Registry.Close(); err != nil {
		t.Fatal(err)
	}
	if err := ensure(ctx, grapes); err != nil { // it is in the snapshot
		t.Error(err)
	}
	waiting, stop := context.WithTimeout(ctx, 50*time.Millisecond)
	defer stop()
	if err := ensure(waiting, gateway.Namespace("other.*", "")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without the database: %v", err)
	}
}
