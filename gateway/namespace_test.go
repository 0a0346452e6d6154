package gateway_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/test/pulltest"
)

// TestANamespaceIsMadeOnce: later changes of its settings are kept. While the database is unavailable, a gateway whose
// namespace does not exist cannot serve.
func TestANamespaceIsMadeOnce(t *testing.T) {
	t.Parallel()
	q := pulltest.Start(t)
	ensure := func(ctx context.Context, t registry.Topic) error {
		_, err := gateway.Ensured(q.Registry, nil, t)(ctx)
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
	if err := ensure(ctx, gateway.Namespace("other.*", "")); !errors.Is(err, registry.ErrUnavailable) {
		t.Errorf("without the database: %v", err)
	}
}
