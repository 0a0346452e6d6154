package lmstfy

import (
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/wakecall/wakecall/gateway"
)

// windows count the requests of tokens with a limit, each kind in a fixed window that begins with its first request.
type windows struct {
	now func() time.Time

	mu    sync.Mutex
	known map[windowKey]*window
}

type windowKey struct {
	pool, namespace, token string
	kind                   kind
}

type window struct {
	ends  time.Time
	count int64
}

func newWindows(now func() time.Time) *windows {
	return &windows{now: now, known: map[windowKey]*window{}}
}

// take counts a request, unless the window already has most; giveBack undoes it.
func (w *windows) take(key windowKey, most int64, interval time.Duration) (giveBack func(), ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	current := w.known[key]
	if current == nil || !now.Before(current.ends) {
		w.sweep(now)
		current = &window{ends: now.Add(interval)}
		w.known[key] = current
	}
	if current.count >= most {
		return nil, false
	}
	current.count++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		current.count--
	}, true
}

// sweepAt is the number of windows at which expired ones are removed.
const sweepAt = 1024

func (w *windows) sweep(now time.Time) {
	if len(w.known) < sweepAt {
		return
	}
	for key, old := range w.known {
		if !now.Before(old.ends) {
			delete(w.known, key)
		}
	}
}

// count counts a request against its token's limit.
func (g *Gateway) count(r *request, kind kind) (giveBack func(), err error) {
	unlimited := func() {}
	limit := r.known.Limit
	if limit == nil || limit.Interval <= 0 {
		return unlimited, nil
	}
	most := limit.Read
	if kind == produce {
		most = limit.Write
	}
	if most <= 0 {
		return unlimited, nil
	}
	key := windowKey{r.pool, r.namespace, r.token, kind}
	giveBack, ok := g.limits.take(key, most, time.Duration(min(limit.Interval, math.MaxInt32))*time.Second)
	if ok {
		return giveBack, nil
	}
	g.metrics.limited.WithLabelValues(r.pool, r.namespace, string(kind)).Inc()
	return nil, &gateway.Problem{Status: http.StatusTooManyRequests, Body: object{
		"msg": fmt.Sprintf("token(%s) %s reach the limit rate, please retry later", r.token, kind),
	}}
}
