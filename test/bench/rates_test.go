package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/harness/process"
	"github.com/wakecall/wakecall/test/wait"
)

const bareServer = "bare net/http server"

func start(b *bench) {
	w := harness.New(b, harness.Options{})
	api, began := w.Quick(), time.Now()
	w.Up()
	err := wait.Until(b.Context(), 2*time.Millisecond, func() error {
		answer := api.Do(b.Context(), http.MethodGet, "/readyz", nil)
		if answer.Err != nil {
			return answer.Err
		}
		return harness.Equal("status", answer.Status, http.StatusOK)
	})
	if err != nil {
		b.Fatal(err)
	}
	b.figure("start of `wakecall up` until it takes pushes", "ms", "≤ 1,000 ms", ms(time.Since(began)))
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// pushes returns single pushes without ids, due in one to two hours.
func pushes(token string) func(int) func([]byte) []byte {
	return prepared(func(n int) []byte {
		job := fmt.Sprintf(`{"body":%s,"delay":%d}`, body(n), 3600+rand.IntN(3600))
		return harness.Request(http.MethodPost, "/v1/topics/"+topic+"/jobs", token, job)
	})
}

// prepared returns 256 requests in turn for each client, which cost the generator nothing.
func prepared(request func(n int) []byte) func(int) func([]byte) []byte {
	return func(client int) func([]byte) []byte {
		var requests [256][]byte
		for i := range requests {
			requests[i] = request(client*len(requests) + i)
		}
		n := 0
		return func([]byte) []byte {
			n++
			return requests[n%len(requests)]
		}
	}
}

// bareRate returns how many pushes a second a bare server answers.
func (in *installation) bareRate() float64 {
	return in.b.rate(64, in.b.sending(in.endpoint.addr(), pushes("")))
}

func push(b *bench) {
	in := b.start(nil)
	in.put(topic, countPath, "active")
	bare := in.bareRate()
	b.beside("single pushes, 64 connections, 64-byte bodies", "/s", "≥ 0.65 of it",
		b.rate(64, b.sending(in.addr(), pushes(in.Token))), bareServer, bare)
}

func batch(b *bench) {
	in := b.start(nil)
	in.put(topic, countPath, "active")
	bare := in.zaddRate()
	rate := b.rate(16, in.batches(jobs{delay: within(time.Hour, 2*time.Hour)}, 100, endless))
	b.beside("batch pushes, 100 jobs a request, ids of 24 bytes", "jobs/s", "≥ 120,000 jobs/s", 100*rate,
		"redis-benchmark ZADD, 16 in a pipeline", bare)
}

// zaddRate returns how many ZADDs a second redis-benchmark makes, in a database beside Wakecall's.
func (in *installation) zaddRate() float64 {
	in.b.Helper()
	tool := process.Need(in.b, "redis-benchmark", "redis-tools")
	out, err := exec.Command(tool, "-s", in.socket(), "--dbnum", "1", "-c", "64", "-d", "64", "-r", "1000000",
		"-t", "zadd", "--csv", "-n", strconv.Itoa(in.b.zadd), "-P", "16").Output()
	if err != nil {
		in.b.Fatalf("redis-benchmark: %v", err)
	}
	_, cells, _ := strings.Cut(string(out), "\"ZADD\",\"")
	number, _, _ := strings.Cut(cells, `"`)
	rate, err := strconv.ParseFloat(number, 64)
	if err != nil {
		in.b.Fatalf("redis-benchmark printed %s", out)
	}
	in.emptyBeside()
	return rate
}

// emptyBeside empties the database beside Wakecall's.
func (in *installation) emptyBeside() {
	in.b.Helper()
	err := in.redis.Do(in.b.Context(), "EVAL", "redis.call('SELECT', 1) return redis.call('FLUSHDB')", 0).Err()
	if err != nil {
		in.b.Fatal(err)
	}
}

func callbacks(b *bench) {
	in := b.start(nil)
	bare := in.bareClientRate()
	in.put(topic, countPath, "paused")
	in.fill(jobs{delay: atOnce}, b.callbacks)
	in.endpoint.reset()
	before := in.cpu()
	in.put(topic, countPath, "active")
	in.endpoint.await(b.callbacks, 5*time.Minute)
	used := in.cpu() - before
	b.beside("callbacks end to end (reserve, POST, settle)", "/s", "≥ 0.65 of it",
		in.endpoint.seen(time.Now(), time.Now()).Steady, "bare http.Client, 256 at once", bare)
	b.figure("the same: processor time of all processes", "µs", "", perJob(used, b.callbacks))
}

func perJob(used time.Duration, n int) float64 {
	return float64(used.Nanoseconds()) / 1000 / float64(n)
}

// bareClientRate returns how many requests a second an http.Client makes of the endpoint.
func (in *installation) bareClientRate() float64 {
	const concurrency = 256
	transport := &http.Transport{MaxIdleConnsPerHost: concurrency, DisableCompression: true}
	defer transport.CloseIdleConnections()
	c := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	return in.b.rate(concurrency, func(n int) harness.Client {
		job := []byte(body(n))
		return func(context.Context) error { // not with its context: a request that the end aborts is no failure
			resp, err := c.Post(in.endpoint.url("/"), "application/json", bytes.NewReader(job))
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			_, err = io.Copy(io.Discard, resp.Body)
			return err
		}
	})
}

func pull(b *bench) {
	in := b.start(nil)
	bare := in.bareRate()
	b.beside("reserve and ack, 64 workers, one job a request", "jobs/s", "≥ 12,000 jobs/s", in.work(64, 1, b.pull/4),
		bareServer+", two requests for them", bare/2)
	b.figure("reserve and ack, 16 workers, 100 jobs a request", "jobs/s", "≥ 60,000 jobs/s", in.work(16, 100, b.pull))
}

// work fills a pull topic and lets workers reserve jobs and ack them, each request made from the answer to the one
// before. It returns the jobs a second.
func (in *installation) work(workers, size, n int) float64 {
	in.b.Helper()
	name := fmt.Sprintf("bench.pull.%d", size)
	in.api.MustPutTopic(in.b, name, M{"delivery": "pull", "ttr": "5m"})
	in.fill(jobs{topic: func(int) string { return name }, delay: atOnce}, n)
	path, most := "/v1/topics/"+name+"/reserve", fmt.Sprintf(`{"max":%d}`, size)
	reserve := harness.Request(http.MethodPost, path, in.Token, most)
	requests := 2 * (n/size - 2*workers) // the rest would leave some workers without jobs
	seen := in.b.ok(harness.StartClients(in.b, workers, 0, in.b.sending(in.addr(), atMost(requests,
		func(answer []byte) []byte {
			if leases := leasesOf(answer); len(leases) > 0 {
				ack := `{"ack":["` + strings.Join(leases, `","`) + `"]}`
				return harness.Request(http.MethodPost, "/v1/leases", in.Token, ack)
			}
			return reserve
		}))).Wait())
	return seen.Rate() / 2 * float64(size)
}

// leasesOf returns the leases in the answer to a reserve; none in that to an ack. To decode the answer would cost the
// generator more than the server takes to make it.
func leasesOf(answer []byte) (leases []string) {
	if !bytes.HasPrefix(answer, []byte(`{"jobs":`)) {
		return nil
	}
	for {
		_, rest, found := bytes.Cut(answer, []byte(`{"lease":"`))
		if !found {
			return leases
		}
		lease, rest, _ := bytes.Cut(rest, []byte(`"`))
		leases, answer = append(leases, string(lease)), rest
	}
}
