package recovery

import (
	"testing"
	"time"

	"github.com/wakecall/wakecall/queue"
)

// TestSpooledPushesOfOneIDAreAsIfPushedInTheirOrder: the first one stays unless a later one replaces it, also within a
// millisecond.
func TestSpooledPushesOfOneIDAreAsIfPushedInTheirOrder(t *testing.T) {
	for name, tt := range map[string]struct {
		replace []bool
		apart   time.Duration
		want    string
	}{
		"kept at once":           {[]bool{false, false}, 0, "0"},
		"kept later":             {[]bool{false, false}, 2 * time.Millisecond, "0"},
		"replaced at once":       {[]bool{false, true}, 0, "1"},
		"replaced later":         {[]bool{false, true, false}, 2 * time.Millisecond, "1"},
		"replaced twice at once": {[]bool{true, false, true}, 0, "2"},
	} {
		t.Run(name, func(t *testing.T) {
			url, _ := startRedis(t)
			h := newHost(t, url)
			h.adopt(t)
			spool := NewSpool(h.dir, h.journal)
			var pushes []queue.Push
			for i, replace := range tt.replace {
				p := queue.Push{Topic: fixtureTopic, ID: "one", Body: []byte{byte('0' + i)}, Priority: queue.Normal}
				if replace {
					p.OnDuplicate = queue.Replace
				}
				pushes = append(pushes, p)
			}
			keep := func(some []queue.Push) {
				if _, err := spool.Keep(some); err != nil {
					t.Fatal(err)
				}
			}
			if tt.apart == 0 {
				keep(pushes)
			}
			for i := range pushes {
				if tt.apart > 0 {
					began := time.Now()
					keep(pushes[i : i+1])
					eventually(t, "another millisecond", func() bool { return time.Since(began) > tt.apart })
				}
			}
			if _, err := Drain(t.Context(), DrainOptions{Queue: h.queue}, h.dir); err != nil {
				t.Fatal(err)
			}
			wantJob(t, h.queue, "one", queue.Ready, func(j *queue.Job) bool { return string(j.Body) == tt.want })
		})
	}
}
