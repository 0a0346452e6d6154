package alert

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/store"
)

// TestADigestHasNewDeathsOnly, and only of topics with addresses.
func TestADigestHasNewDeathsOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, watch := newWorld()
		w.topics["b"].Emails = nil
		died := func(n int64) {
			for _, name := range []string{"a", "b"} {
				w.totals[name] = observe.TopicTotals{Total: observe.Totals{Pushed: n, Died: n}, Stats: store.Stats{Dead: n}}
			}
			w.active = []string{"a", "b"}
		}
		died(7) // before its first round
		kinds(t, watch, 0)
		if list := watch.Dead(t.Context()); len(list) > 0 {
			t.Errorf("old deaths: %+v", list)
		}
		died(9)
		kinds(t, watch, 0)
		list := watch.Dead(t.Context())
		if len(list) != 1 || list[0].Topic != "a" || list[0].Count != 2 ||
			fmt.Sprint(list[0].Last) != "[{2 the endpoint answered 500}]" {
			t.Errorf("new deaths: %+v", list)
		}
		if list := watch.Dead(t.Context()); len(list) > 0 {
			t.Errorf("the same again: %+v", list)
		}
		died(12) // while no watch runs
		watch = w.watch()
		kinds(t, watch, 0)
		w.lost = errors.New("away")
		if list := watch.Dead(t.Context()); len(list) > 0 {
			t.Errorf("without the registry: %+v", list)
		}
		w.lost = nil
		if list := watch.Dead(t.Context()); len(list) != 1 || list[0].Count != 3 {
			t.Errorf("a new watch: %+v", list)
		}
	})
}
