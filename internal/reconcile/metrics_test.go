package reconcile

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wakecall/wakecall/internal/store"
)

// TestMetricsShowHowLongARecoveryLasts, while this process is the one that works.
func TestMetricsShowHowLongARecoveryLasts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := prometheus.NewPedanticRegistry()
		k, err := NewReconciler(ReconcilerOptions{Dir: t.TempDir(), Registerer: r})
		if err != nil {
			t.Fatal(err)
		}
		expect := func(what, want string) {
			t.Helper()
			families, err := r.Gather()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range families {
				if name := f.GetName(); name == "wakecall_recovery_duration_seconds" || name == "wakecall_spool_pending" {
					got = append(got, fmt.Sprint(name, " ", f.GetMetric()[0].GetGauge().GetValue()))
				}
			}
			if have := strings.Join(got, ", "); have != want {
				t.Errorf("%s: %s, want %s", what, have, want)
			}
		}
		expect("another process works", "")
		k.state.work(true)
		shard, err := store.OpenShard(store.ShardConfig{Name: "a", URL: "redis://127.0.0.1:1"},
			store.Options{Logger: slog.New(slog.DiscardHandler)}, store.Peers{})
		if err != nil {
			t.Fatal(err)
		}
		defer shard.Close()
		bucket := shard.Buckets()[0]
		expect("nothing to do", "wakecall_spool_pending 0")
		k.state.replays(bucket, true)
		time.Sleep(time.Minute)
		k.state.replays(bucket, true) // tried again
		time.Sleep(time.Minute)
		expect("two minutes of replaying", "wakecall_recovery_duration_seconds 120, wakecall_spool_pending 0")
		k.state.replays(bucket, false)
		expect("replayed", "wakecall_spool_pending 0")
	})
}
