package bench

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/wakecall/wakecall/test/freeport"
	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/harness/process"
)

// queue speaks lmstfy's protocol, with Wakecall's gateway or lmstfy itself.
type queue struct {
	b           *bench
	addr, token string
}

// gateway measures what lmstfy's clients do.
func gateway(b *bench) {
	addr, admin := b.freeAddr(), b.freeAddr()
	in := b.start(map[string]string{
		"WAKECALL_GATEWAYS_LMSTFY_ADDR": addr, "WAKECALL_GATEWAYS_LMSTFY_ADMIN_ADDR": admin,
	})
	bare := in.bareRate()
	published, consumed := b.queue(addr, admin).rates()
	const (
		publish = "lmstfy's clients: publish, 64 connections"
		consume = "lmstfy's clients: consume and acknowledge, 64 workers"
	)
	b.beside(publish, "/s", "", published, bareServer, bare)
	b.beside(consume, "jobs/s", "", consumed, bareServer+", two requests for them", bare/2)
	if os.Getenv("LMSTFY_BINARY") == "" {
		return
	}
	theirPublished, theirConsumed := b.startLmstfy().rates()
	b.beside(publish+", beside lmstfy", "/s", "≥ 1.6 times", published, "lmstfy", theirPublished)
	b.beside(consume+", beside lmstfy", "jobs/s", "≥ 1.5 times", consumed, "lmstfy", theirConsumed)
}

func (b *bench) freeAddr() string { return fmt.Sprintf("127.0.0.1:%d", freeport.TCP(b)) }

// startLmstfy starts lmstfy with a Redis of its own, which has an append-only file like Wakecall's.
func (b *bench) startLmstfy() *queue {
	b.Helper()
	addr, admin, store := b.freeAddr(), b.freeAddr(), harness.StartRedis(b, harness.RedisOptions{})
	dir := process.Dir(b, "lmstfy")
	_, port, _ := strings.Cut(addr, ":")
	_, adminPort, _ := strings.Cut(admin, ":")
	conf := fmt.Sprintf("Host = \"127.0.0.1\"\nPort = %s\nAdminHost = \"127.0.0.1\"\nAdminPort = %s\n"+
		"LogLevel = \"error\"\n[AdminRedis]\nAddr = %[3]q\n[Pool.default]\nAddr = %[3]q\n", port, adminPort, store.Addr())
	file := filepath.Join(dir, "lmstfy.toml")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		b.Fatal(err)
	}
	process.Start(b, dir, "lmstfy", exec.Command(os.Getenv("LMSTFY_BINARY"), "-c", file))
	return b.queue(addr, admin)
}

// queue creates a token, and waits until it is accepted.
func (b *bench) queue(addr, admin string) *queue {
	b.Helper()
	q := &queue{b: b, addr: addr}
	api, adminAPI := harness.NewAPI("http://"+addr, ""), harness.NewAPI("http://"+admin, "")
	harness.Eventually(b, harness.Patience, "a token", func() error {
		if q.token == "" {
			var made struct{ Token string }
			answer := adminAPI.Do(b.Context(), http.MethodPost, "/token/bench?description=bench", nil)
			if err := answer.JSON(&made); err != nil {
				return err
			}
			q.token = made.Token
		}
		answer := api.Do(b.Context(), http.MethodGet, q.path("/peek", ""), nil)
		if answer.Err != nil {
			return answer.Err
		}
		return harness.Equal("status of a peek", answer.Status, http.StatusNotFound)
	})
	return q
}

func (q *queue) path(path, query string) string {
	return "/api/bench/queue" + path + "?token=" + q.token + "&" + query
}

// rates returns how many delayed jobs are published a second, and how many ready ones are consumed and acknowledged.
func (q *queue) rates() (published, consumed float64) {
	q.b.Helper()
	published = q.b.rate(64, q.b.sending(q.addr, prepared(func(n int) []byte {
		path := q.path("", fmt.Sprintf("delay=%d&ttl=86400&tries=3", 3600+rand.IntN(3600)))
		return harness.Request(http.MethodPut, path, "", body(n))
	})))
	q.fill(q.b.pull)
	consumed = q.b.rate(64, q.b.sending(q.addr, func(int) func([]byte) []byte { return q.worker() })) / 2
	return published, consumed
}

// fill publishes ready jobs in bulks.
func (q *queue) fill(jobs int) {
	q.b.Helper()
	const bulk = 64
	bodies := make([]string, bulk)
	for i := range bodies {
		bodies[i] = body(i)
	}
	request := harness.Request(http.MethodPut, q.path("/bulk", "delay=0&ttl=86400&tries=3"), "",
		"["+strings.Join(bodies, ",")+"]")
	next := atMost(jobs/bulk, func([]byte) []byte { return request })
	q.b.ok(harness.StartClients(q.b, 16, 0, q.b.sending(q.addr, next)).Wait())
}

// worker consumes jobs and acknowledges them, each request made from the answer to the one before.
func (q *queue) worker() func(answer []byte) []byte {
	consume := harness.Request(http.MethodGet, q.path("", "ttr=60&timeout=5"), "", "")
	return func(answer []byte) []byte {
		_, rest, found := bytes.Cut(answer, []byte(`"job_id":"`))
		id, _, _ := bytes.Cut(rest, []byte(`"`))
		if !found {
			return consume
		}
		return harness.Request(http.MethodDelete, q.path("/job/"+string(id), ""), "", "")
	}
}
