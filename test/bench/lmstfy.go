package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// lmstfy itself, measured on a machine whose bare echo handler made 54,900 requests a second: 16,500 publishes with an
// append-only file, 3,800 jobs consumed and acknowledged, 326 bytes a job. The targets are 1.8 times, 2.5 times, and
// 170 bytes.
const (
	lmstfyPublishRatio = 1.8 * 16_500 / 54_900
	lmstfyConsumeRatio = 2.5 * 3_800 / 54_900
	lmstfyBytes        = 170
	lmstfyBulk         = 64 // jobs in a request
	lmstfyQueue        = "/api/bench/queue"
)

var lmstfyGroup = group{
	name: "lmstfy", about: "publish, consume and acknowledge through the lmstfy gateway",
	figures: []figure{
		{
			name: "lmstfy_publish", title: "lmstfy's clients: publish, 64 connections, 64-byte body",
			unit: "/s", limit: "bare echo handler", ratio: lmstfyPublishRatio,
		},
		{
			name: "lmstfy_consume", title: "lmstfy's clients: consume and acknowledge, 64 workers",
			unit: "jobs/s", limit: "bare echo handler", ratio: lmstfyConsumeRatio,
		},
		{
			name: "lmstfy_bytes", title: "lmstfy's clients: Redis memory per delayed job, 64-byte body",
			unit: "bytes", atMost: lmstfyBytes, fullOnly: true,
		},
	},
	measure: measureLmstfy,
}

func measureLmstfy(ctx context.Context, s *suite) (raw []Raw, err error) {
	bare, err := s.pushLoad(s.echo.addr, "").run(ctx)
	if err != nil {
		return nil, err
	}
	for _, measure := range []func(context.Context, *lmstfyBench) (Raw, error){
		s.lmstfyPublish, s.lmstfyConsume, s.lmstfyMemory,
	} {
		r, err := s.onLmstfy(ctx, measure)
		if err != nil {
			return nil, err
		}
		raw = append(raw, r)
	}
	raw[0].Limit, raw[1].Limit = bare.Rate, bare.Rate
	return raw, nil
}

// lmstfyBench is an installation with the lmstfy gateway.
type lmstfyBench struct {
	*installation
	api, token string
}

func (s *suite) onLmstfy(ctx context.Context, f func(context.Context, *lmstfyBench) (Raw, error)) (raw Raw, err error) {
	ports, err := freePorts(2)
	if err != nil {
		return raw, err
	}
	return raw, s.on(ctx, func(in *installation) error {
		b := &lmstfyBench{installation: in, api: ports[0]}
		if err := b.addToken(ctx, ports[1]); err != nil {
			return err
		}
		var err error
		raw, err = f(ctx, b)
		return err
	}, "WAKECALL_GATEWAYS_LMSTFY_ADDR="+ports[0], "WAKECALL_GATEWAYS_LMSTFY_ADMIN_ADDR="+ports[1])
}

// addToken creates a token, and waits until the gateway accepts it.
func (b *lmstfyBench) addToken(ctx context.Context, admin string) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	return until(ctx, 20*time.Millisecond, func() (bool, error) {
		if b.token == "" {
			b.token = newLmstfyToken(ctx, admin)
			return false, nil
		}
		peek, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.api+lmstfyQueue+"/peek", nil)
		if err != nil {
			return false, err
		}
		peek.Header.Set("X-Token", b.token)
		answer, err := http.DefaultClient.Do(peek)
		if err != nil {
			return false, nil // it starts
		}
		return answer.StatusCode == http.StatusNotFound, answer.Body.Close()
	})
}

// newLmstfyToken returns a new token, or "" while the gateway is starting.
func newLmstfyToken(ctx context.Context, admin string) string {
	create, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+admin+"/token/bench?description=bench", nil)
	if err != nil {
		return ""
	}
	answer, err := http.DefaultClient.Do(create)
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	var made struct{ Token string }
	_ = json.NewDecoder(answer.Body).Decode(&made) // on an error there is no token
	return made.Token
}

func (b *lmstfyBench) request(method, path, body string) []byte {
	return fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Token: %s\r\nContent-Length: %d\r\n\r\n%s", method,
		lmstfyQueue+path, b.token, len(body), body)
}

// publishes returns prepared publishes, which are due in one to two hours.
func (b *lmstfyBench) publishes(conn int) func() []byte {
	prepared := make([][]byte, 256)
	for i := range prepared {
		prepared[i] = b.request(http.MethodPut, fmt.Sprintf("?delay=%d&ttl=86400&tries=3", 3600+rand.IntN(3600)),
			jobBody(conn*len(prepared)+i))
	}
	n := 0
	return func() []byte {
		n++
		return prepared[n%len(prepared)]
	}
}

func (s *suite) lmstfyPublish(ctx context.Context, b *lmstfyBench) (Raw, error) {
	r, cpu, err := b.load(ctx, load{
		addr: b.api, conns: pushConnections, warmUp: s.scale.warmUp, duration: s.scale.load,
		source: func(conn int) func() []byte { return b.publishes(conn) },
	})
	return Raw{Value: r.Rate, Detail: map[string]any{"requests": r, "cpu_us_per_publish": cpu}}, err
}

// fillQueue publishes jobs in bulks. All jobs of a bulk have the same delay.
func (b *lmstfyBench) fillQueue(ctx context.Context, jobs int, delay func() time.Duration) error {
	_, err := load{
		addr: b.api, conns: batchConnections, total: jobs / lmstfyBulk,
		source: func(conn int) func() []byte {
			n := 0
			return func() []byte {
				bodies := make([]string, lmstfyBulk)
				for i := range bodies {
					bodies[i] = jobBody(n)
					n++
				}
				query := fmt.Sprintf("/bulk?delay=%d&ttl=86400&tries=3", int(delay().Seconds()))
				return b.request(http.MethodPut, query, "["+strings.Join(bodies, ",")+"]")
			}
		},
	}.run(ctx)
	return err
}

func (s *suite) lmstfyConsume(ctx context.Context, b *lmstfyBench) (Raw, error) {
	jobs := s.scale.pullJobs / 4
	if err := b.fillQueue(ctx, jobs, func() time.Duration { return 0 }); err != nil {
		return Raw{}, err
	}
	r, cpu, err := b.installation.load(ctx, load{
		addr: b.api, conns: pullWorkers, total: 2 * (jobs - 4*pullWorkers),
		reply: func(int) func([]byte) []byte { return b.worker() },
	})
	return Raw{Value: r.Rate / 2, Detail: map[string]any{"requests": r, "cpu_us_per_job": 2 * cpu}}, err
}

// worker consumes jobs and acknowledges them; each request depends on the previous answer.
func (b *lmstfyBench) worker() func(answer []byte) []byte {
	consume := b.request(http.MethodGet, "?ttr=60&timeout=5", "")
	return func(answer []byte) []byte {
		_, rest, found := bytes.Cut(answer, []byte(`"job_id":"`))
		id, _, _ := bytes.Cut(rest, []byte(`"`))
		if !found {
			return consume
		}
		return b.request(http.MethodDelete, "/job/"+string(id), "")
	}
}

func (s *suite) lmstfyMemory(ctx context.Context, b *lmstfyBench) (Raw, error) {
	before, err := b.info(ctx, "memory", "used_memory")
	if err != nil {
		return Raw{}, err
	}
	if err := b.fillQueue(ctx, s.scale.memoryJobs, between(time.Hour, 2*time.Hour)); err != nil {
		return Raw{}, err
	}
	err = b.rest(ctx)
	after, infoErr := b.info(ctx, "memory", "used_memory")
	jobs := s.scale.memoryJobs / lmstfyBulk * lmstfyBulk
	return Raw{Value: float64(after-before) / float64(jobs), Detail: map[string]any{"jobs": jobs}},
		errors.Join(err, infoErr)
}
