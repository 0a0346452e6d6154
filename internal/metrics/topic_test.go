package metrics

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// values returns the values of a counter's series by topic and result.
func values(t *testing.T, c *Counter) map[string]float64 {
	t.Helper()
	ch := make(chan prometheus.Metric, 10_000)
	c.Collect(ch)
	close(ch)
	got := map[string]float64{}
	for m := range ch {
		var d dto.Metric
		if err := m.Write(&d); err != nil {
			t.Fatal(err)
		}
		got[d.Label[1].GetValue()+" "+d.Label[0].GetValue()] += d.Counter.GetValue()
	}
	return got
}

func TestSeriesAreBounded(t *testing.T) {
	c := New("pushes", "Pushes.", 3, "result")
	now := time.Now()
	c.names.now = func() time.Time { return now }
	for i := range 10 {
		c.Inc(fmt.Sprint("t", i), "ok")
		c.Inc(fmt.Sprint("t", i), "bad")
	}
	got := values(t, c)
	if len(got) != 8 || got["t0 ok"] != 1 || got["t2 bad"] != 1 || got["(other) ok"] != 7 || got["(other) bad"] != 7 {
		t.Errorf("%v", got)
	}

	now = now.Add(Kept - time.Minute)
	c.Inc("t1", "ok")
	now = now.Add(2 * time.Minute)
	if got = values(t, c); len(got) != 4 || got["t1 ok"] != 2 || got["(other) ok"] != 7 {
		t.Errorf("after an hour with only t1: %v", got)
	}
	c.Inc("t9", "ok")
	if got = values(t, c); got["t9 ok"] != 1 {
		t.Errorf("t9 has no series: %v", got)
	}

	now = now.Add(2 * time.Minute)
	for i := range 10 { // a queue for each job, used once
		c.Inc("t1", "ok")
		c.Inc(fmt.Sprint("job", i), "ok")
		now = now.Add(2 * time.Second)
	}
	if got = values(t, c); got["t1 ok"] != 12 || got["job0 ok"] != 1 || got["job9 ok"] != 0 {
		t.Errorf("while all series are in use: %v", got)
	}
	now = now.Add(2 * time.Minute)
	c.Inc("new", "ok")
	if got = values(t, c); got["new ok"] != 1 {
		t.Errorf("a minute after the last use of the others, a new topic has no series: %v", got)
	}
}
