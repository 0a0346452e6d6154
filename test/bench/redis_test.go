package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/test/harness"
)

// plainScript is what a push would be if it had nothing to promise: its job in a hash and its due time in a sorted set.
var plainScript = redis.NewScript(`
return redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2]) + redis.call('ZADD', KEYS[2], ARGV[3], ARGV[1])`)

// redisTime measures Redis's processor time for one job at a time, which shares no script call with another.
func redisTime(b *bench) {
	in := b.start(nil)
	in.put(topic, countPath, "active")
	in.rest()
	began, before := time.Now(), in.redisCPU()
	time.Sleep(b.load)
	idle := float64(in.redisCPU()-before) / float64(time.Since(began))
	plain := in.redisPerJob(idle, in.plainScripts())
	push := in.redisPerJob(idle, in.batches(jobs{delay: within(time.Hour, 2*time.Hour)}, 1, b.alone))
	in.rest()
	life := in.redisPerJob(idle, in.batches(jobs{delay: atOnce}, 1, b.alone))
	in.endpoint.await(b.alone, harness.Patience)
	const limit = "script of HSETNX and ZADD, called alone"
	b.beside("Redis's time for a push alone, 200 a second", "µs", "≤ 3 times", push, limit, plain)
	b.beside("Redis's time for a job's whole life alone, 200 a second", "µs", "≤ 9 times", life, limit, plain)
}

// redisPerJob returns the microseconds of Redis's processor time for a job, without what an idle Redis uses. The time
// after the last job is for its callback.
func (in *installation) redisPerJob(idle float64, client func(int) harness.Client) float64 {
	in.b.Helper()
	began, before := time.Now(), in.redisCPU()
	in.b.ok(harness.StartClients(in.b, 1, lateRate, client).Wait())
	time.Sleep(time.Second)
	used := in.redisCPU() - before
	return perJob(used-time.Duration(idle*float64(time.Since(began))), in.b.alone)
}

// plainScripts returns a client that calls the plain script for as many jobs, in a database beside Wakecall's.
func (in *installation) plainScripts() func(int) harness.Client {
	beside := redis.NewClient(&redis.Options{Network: "unix", Addr: in.socket(), DB: 1})
	in.b.Cleanup(func() { _ = beside.Close() })
	called := 0
	return func(int) harness.Client {
		return func(ctx context.Context) error {
			if called++; called > in.b.alone {
				return harness.ErrDone
			}
			due := time.Now().Add(time.Hour).UnixMilli()
			return plainScript.Run(ctx, beside, []string{"jobs", "due"}, fmt.Sprint(called), body(called), due).Err()
		}
	}
}
