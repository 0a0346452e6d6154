package test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/test/harness"
)

// moving is an old system that is still in use while producers and jobs move to Wakecall.
type moving struct {
	args    []string              // of `wakecall import`
	add     func(id string)       // push of a producer there; the job is due at once
	gateway func(id string) error // the same at the gateway
	work    func()                // one round of its timers and consumers
	drain   func(<-chan struct{}) // consumes Wakecall's jobs until the channel is closed
	left    func() int64          // number of jobs left there
}

// TestMovingWithoutAStop follows the guides: both systems are in use, an import follows the producers, which move one
// after the other, and a last import ends the move. Each job is done once, in one of the two systems.
func TestMovingWithoutAStop(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(*testing.T, *consumed) (*installation, *moving){
		"beanstalk": movingBeanstalkd, "delayqueue": movingDelayQueue, "grape": movingGrape, "lmstfy": movingLmstfy,
		"phpdq": movingPHPDelayqueue,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const waiting, producers, each = 300, 3, 30
			done := &consumed{times: map[string]int{}}
			i, old := begin(t, done)
			for n := range waiting {
				old.add(fmt.Sprint("w", n))
			}
			args := append([]string{"import", name}, old.args...)
			if code, out := i.Run(append(args, "--dry-run")...); code != 0 || !strings.Contains(out, "300") {
				t.Fatalf("the dry run exits %d: %s", code, out)
			}
			follow := exec.Command(harness.Binary(t), append(args, "--follow")...)
			follow.Dir, follow.Env = i.Dir, append(os.Environ(), "WAKECALL_DATA_DIR="+i.Data)
			says := &strings.Builder{}
			follow.Stderr = says
			must(t, follow.Start())
			defer func() { _ = follow.Process.Kill() }()
			var consumers, oldConsumers, producing sync.WaitGroup
			ended, oldEnded := make(chan struct{}), make(chan struct{})
			consumers.Go(func() { old.drain(ended) })
			oldConsumers.Go(func() {
				for tick := time.Tick(5 * time.Millisecond); ; <-tick {
					select {
					case <-oldEnded:
						return
					default:
						old.work()
					}
				}
			})
			for p := range producers {
				producing.Go(func() {
					for n := range each * (producers + 1) {
						id := fmt.Sprint(p, "-", n)
						if n < each*(p+1) {
							old.add(id)
							time.Sleep(2 * time.Millisecond) // the rate of a producer
						} else if err := old.gateway(id); err != nil {
							t.Errorf("%s: %v", id, err)
						}
					}
				})
			}
			producing.Wait()
			must(t, follow.Process.Signal(syscall.SIGINT))
			if err := follow.Wait(); err != nil {
				t.Errorf("the import that follows: %v: %s", err, says)
			}
			close(oldEnded)
			oldConsumers.Wait()
			if code, out := i.Run(args...); code != 0 || old.left() != 0 {
				t.Errorf("the last import exits %d, and the old system has %d jobs: %s", code, old.left(), out)
			}
			const all = waiting + producers*each*(producers+1)
			harness.Eventually(t, soon, "all jobs to be done", func() error { return harness.Equal("done", done.count(), all) })
			close(ended)
			consumers.Wait()
			t.Logf("%d of %d jobs were done by the old system", done.old, all)
			for id, n := range done.times {
				if n != 1 {
					t.Errorf("%s was done %d times", id, n)
				}
			}
		})
	}
}

// movingPull is an old system with consumers. In both systems, the bodies of jobs are their numbers.
func movingPull(
	w *harness.Wakecall, old *oldSystem, done *consumed, add func(id string), gateway func(id string) error,
) (*installation, *moving) {
	i := &installation{Wakecall: w}
	old.number = func(_, body string) string { return body }
	return i, &moving{
		args: old.args, left: old.left, add: add, gateway: gateway,
		work:  func() { done.addOld(old.consume()) },
		drain: func(stop <-chan struct{}) { done.drain(i, old, stop) },
	}
}

func movingLmstfy(t *testing.T, done *consumed) (*installation, *moving) {
	old, gateway := oldLmstfy(t), startLmstfy(t)
	db := patient(strings.TrimPrefix(old.args[1], "redis://"))
	t.Cleanup(func() { _ = db.Close() })
	return movingPull(gateway.w, old, done, func(id string) {
		db.Set(ctx, "j/shop/q/"+id, id, time.Hour)
		db.LPush(ctx, "q/shop/q", "\x03\x00"+le16(id))
	}, func(id string) error {
		return harness.Equal("status", gateway.do("PUT", "q", id).status, 201)
	})
}

func movingGrape(t *testing.T, done *consumed) (*installation, *moving) {
	old := oldGrape(t)
	w, addr := startGateway(t, "GRAPE")
	db := patient(strings.TrimPrefix(old.args[1], "redis://"))
	t.Cleanup(func() { _ = db.Close() })
	return movingPull(w, old, done, func(id string) {
		db.SAdd(ctx, "tube:set", "T")
		db.HSet(ctx, "tube:T:job:"+id, "id", id, "dtr", 0, "ttr", 60000, "noe", 0, "data", id)
		db.ZAdd(ctx, "tube:T:queue:delay", redis.Z{Score: float64(time.Now().UnixMilli()), Member: id})
	}, func(id string) error {
		for deadline := time.Now().Add(soon); ; time.Sleep(10 * time.Millisecond) { // until the import has created the tube
			status, _ := grape{t, addr}.ask("POST", "/api/job/produce", "tube=T&jid="+id, id)
			if status == http.StatusOK || time.Now().After(deadline) {
				return harness.Equal("status", status, http.StatusOK)
			}
		}
	})
}

func movingBeanstalkd(t *testing.T, done *consumed) (*installation, *moving) {
	old := oldBeanstalkd(t)
	w, addr := startGateway(t, "BEANSTALK")
	producer, gateway := dialBeanstalk(t, old.args[1]), dialBeanstalk(t, addr)
	return movingPull(w, old, done, func(id string) {
		_, err := producer.Put([]byte(id), 100, 0, time.Minute)
		must(t, err)
	}, func(id string) error {
		_, err := gateway.Put([]byte(id), 100, 0, time.Minute)
		return err
	})
}

func movingDelayQueue(t *testing.T, done *consumed) (*installation, *moving) {
	old, db := delayQueueOn(t)
	w, addr := startGateway(t, "DELAYQUEUE")
	i := &installation{w, harness.StartEndpoint(t)}
	gateway := delayQueue{t, addr}
	return i, &moving{
		args: old.args, left: old.left,
		add: func(id string) {
			due := time.Now()
			db.Set(ctx, id, delayQueueJob(id, due), 0)
			db.ZAdd(ctx, "dq_bucket_1", redis.Z{Score: float64(due.Unix()), Member: id})
		},
		gateway: func(id string) error {
			return harness.Equal("answer",
				gateway.post("/push", `{"topic":"q","id":"`+id+`","delay":1,"ttr":60,"body":"x"}`), delayQueueAdded)
		},
		work: func() { // a timer copies the head of its bucket, then removes it
			due, _ := db.ZRange(ctx, "dq_bucket_1", 0, 0).Result()
			if len(due) == 1 && db.Exists(ctx, due[0]).Val() == 1 &&
				db.ZScore(ctx, "dq_bucket_1", due[0]).Val() <= float64(time.Now().Unix()) {
				db.RPush(ctx, "dq_queue_q", due[0])
				db.ZRem(ctx, "dq_bucket_1", due[0])
			}
			done.addOld(old.consume())
		},
		drain: func(stop <-chan struct{}) { done.drain(i, old, stop) },
	}
}

func movingPHPDelayqueue(t *testing.T, done *consumed) (*installation, *moving) {
	i, addr := startPHPDQ(t)
	i.endpoint.Set("/h.php", func(w http.ResponseWriter, _ *http.Request, c harness.Call) {
		done.add(c.ID)
		_, _ = io.WriteString(w, "OK")
	})
	old := startPHPDelayqueue(t, i.endpoint.URL("/h.php"))
	return i, &moving{
		args: []string{"--mysql", old.dsn},
		add:  func(id string) { old.add(t, "Order_Close", []string{id}, time.Now()) },
		gateway: func(id string) error {
			request := `{"cmd":"add","topic":"Order_Close","id":"` + id + `","fix_time":"2026-01-01 00:00:00","body":{"a":1}}`
			for deadline := time.Now().Add(soon); ; time.Sleep(10 * time.Millisecond) { // until it knows the topic
				if err := phpAdd(addr, request); err == nil || time.Now().After(deadline) {
					return err
				}
			}
		},
		work: func() { // a timer moves due jobs; a consumer deletes a job and then makes the call
			due, _ := old.redis.ZRange(ctx, "dq_bucket_1", 0, 0).Result()
			if len(due) == 1 && old.redis.ZRem(ctx, "dq_bucket_1", due[0]).Val() == 1 {
				old.redis.RPush(ctx, "dq_1ready_queue", due[0])
			}
			if name := old.redis.LPop(ctx, "dq_1ready_queue").Val(); old.redis.HDel(ctx, "dq_job_info", name).Val() == 1 {
				done.addOld(strings.TrimPrefix(name, "Order_Close:"))
			}
		},
		drain: func(<-chan struct{}) {}, // its endpoint is called
		left: func() int64 {
			return old.redis.Exists(ctx, "dq_job_info", "dq_bucket_1", "dq_1ready_queue", "dq_wakecall_claims").Val()
		},
	}
}
