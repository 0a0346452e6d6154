package bench

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/wakecall/wakecall/test/harness"
)

// waiting measures pushes while clients of two gateways wait for as many topics as they can, and in turn without these.
func waiting(b *bench) {
	addr, admin, pops := b.freeAddr(), b.freeAddr(), b.freeAddr()
	in := b.start(map[string]string{
		"WAKECALL_GATEWAYS_LMSTFY_ADDR": addr, "WAKECALL_GATEWAYS_LMSTFY_ADMIN_ADDR": admin,
		"WAKECALL_GATEWAYS_DELAYQUEUE_ADDR": pops,
	})
	in.put(topic, countPath, "active")
	lmstfy := harness.ManyNames{URL: "http://" + addr + "/api/bench", Token: b.queue(addr, admin).token, Clients: 150}
	delayQueue := harness.ManyNames{URL: "http://" + pops + "/pop", Clients: 300}
	for what, names := range map[string][2]int{
		"as they may name": {250, 250}, "too many": {2000, 1000},
	} {
		var with, quiet []time.Duration
		var used, took time.Duration
		for range 4 {
			quiet = append(quiet, in.pushed()...)
			ctx, stop := context.WithCancel(b.Context())
			var attack sync.WaitGroup
			for i, clients := range []*harness.ManyNames{&lmstfy, &delayQueue} {
				clients.Names, clients.Renewed = names[i], 4*time.Second
				attack.Go(func() { clients.Run(ctx) })
			}
			before, began := in.redisCPU(), time.Now()
			with = append(with, in.pushed()...)
			used, took = used+in.redisCPU()-before, took+time.Since(began)
			stop()
			attack.Wait()
		}
		b.figure("Redis's time while 450 clients wait for "+what, "ms/s", "", 1000*used.Seconds()/took.Seconds())
		b.beside("pushes while 450 clients wait for "+what+", p99", "ms", "≤ 2 times", ms(p99(with)), "alone", ms(p99(quiet)))
	}
	b.figure("Redis's memory after that", "MiB", "", in.memory()/(1<<20))
}

func p99(took []time.Duration) time.Duration {
	slices.Sort(took)
	return took[len(took)*99/100]
}

// pushed makes 50 pushes a second, one after the other, and returns how long each took.
func (in *installation) pushed() (took []time.Duration) {
	in.b.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < 2*in.b.load; <-tick.C {
		start := time.Now()
		in.api.MustDo(in.b, http.StatusCreated, http.MethodPost, "/v1/topics/"+topic+"/jobs", M{"body": 1, "delay": "1h"})
		took = append(took, time.Since(start))
	}
	return took
}
