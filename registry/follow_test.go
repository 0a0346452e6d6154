package registry

import (
	"testing"
	"time"
)

// TestWhatAnotherProcessRegisteredIsFoundWhenAskedFor, without waiting for the next look.
func TestWhatAnotherProcessRegisteredIsFoundWhenAskedFor(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		here, there := open(t, Options{DSN: dsn, Poll: time.Hour}), open(t, Options{DSN: dsn, Poll: time.Hour})
		put(t, there, topic("shop.close"))
		if here.Snapshot().Topics["shop.close"] != nil {
			t.Fatal("it is there already")
		}
		here.Refresh(t.Context())
		if here.Snapshot().Topics["shop.close"] == nil {
			t.Error("it is not found")
		}
	})
}
