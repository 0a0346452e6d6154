package alert

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TestMetricsComeFromOneHost, whichever hosts are up, so that sums over all hosts are right.
func TestMetricsComeFromOneHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHosts(t, 2, ann)
		h.wrong([]Finding{fails("x")}, 0, 1)
		// expect scrapes both hosts each second, while some are up, and counts the scrapes with another sum than one.
		expect := func(what string, span, gap time.Duration, up ...int) {
			t.Helper()
			missing := 0
			for i := range int(span / time.Second) {
				if i%int(defaultEvery/time.Second) == 0 {
					for _, k := range up {
						h.list[k].round(t.Context())
					}
				}
				switch n := h.problems(t, up...); {
				case n > 1:
					t.Errorf("%s: after %d s the hosts show %d problems, but there is one", what, i, n)
				case n == 0:
					missing++
				}
				time.Sleep(time.Second)
			}
			if missing > int(gap/time.Second) {
				t.Errorf("%s: %d s without metrics, want at most %s", what, missing, gap)
			}
		}
		expect("two hosts", time.Minute, 0, 0, 1)
		h.away(true)
		expect("without the store", time.Minute, 0, 0, 1)
		h.away(false)
		expect("with the store again", time.Minute, 0, 0, 1)
		expect("after the host that leads has died", 2*time.Minute, leaseTTL+defaultEvery, 1)
		expect("the other is back", time.Minute, 0, 0, 1)
		leader := slices.IndexFunc(h.list, func(d *day) bool { return d.Leads() })
		h.list[leader].leave(t.Context())
		expect("after the leader has stopped", time.Minute, 0, 1-leader)
		time.Sleep(leaseTTL)
		if n := h.problems(t, 0, 1); n != 0 {
			t.Errorf("after both were suspended for longer than the lease, they show %d problems", n)
		}
	})
}

// problems sums up what hosts show.
func (h *hosts) problems(t *testing.T, hosts ...int) (n int) {
	t.Helper()
	for _, i := range hosts {
		r := prometheus.NewPedanticRegistry()
		r.MustRegister(h.list[i].Alerts)
		families, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "wakecall_problem" {
				n += len(f.GetMetric())
			}
		}
	}
	return n
}
