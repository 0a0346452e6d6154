package callback

import (
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/race"
)

func TestRetryIf(t *testing.T) {
	cases := []struct {
		src, body string
		want      bool
	}{
		{`res.code != 200 && res.data.status != 2`, `{"code":1,"data":{"status":1}}`, true},
		{`res.code != 200 && res.data.status != 2`, `{"code":1,"data":{"status":2}}`, false},
		{`res.code != 200 && res.data.status != 2`, `not json`, true},
		{`{res.code}!=200 && {res.data.status} != 2`, `{"code":200}`, false},
		{`body == ""`, ``, true},
		{`status == 201`, ``, true},
		{`headers["x-a"] == "1" and headers["nothing"] == ""`, ``, true},
		{`res.id == 9007199254740993`, `{"id":9007199254740993}`, true},
		{`res.v == 1`, `{"v":1.0}`, true},
		{`body contains "{res.code}"`, `{res.code}`, true},
		{`res.list[3].x == nil`, `{"list":[1]}`, true},
	}
	for _, x := range cases {
		p, err := CompileRetryIf(x.src)
		if err != nil {
			t.Errorf("%s: %v", x.src, err)
			continue
		}
		if got, err := p.run(201, http.Header{"X-A": {"1"}}, []byte(x.body)); got != x.want || err != nil {
			t.Errorf("%s on %s: %v, %v", x.src, x.body, got, err)
		}
	}
	for src, position := range map[string]string{
		"res.code !": "line 1", "status ==\n  nothing": "line 2, column 3", "status": "", "1 + ": "line 1",
		"nothing(": "line 1",
	} {
		if _, err := CompileRetryIf(src); err == nil || !strings.Contains(err.Error(), position) {
			t.Errorf("%q: %v", src, err)
		}
	}
}

// within fails if an evaluation uses too much CPU time or memory.
func within(t testing.TB, p *Program, src string, body []byte) error {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := processorTime()
	_, err := p.run(200, http.Header{}, body)
	took := processorTime() - start
	runtime.ReadMemStats(&after)
	limit := maxTime
	if race.Enabled {
		limit *= 10
	}
	if made := after.TotalAlloc - before.TotalAlloc; took > limit || made > maxMemory {
		t.Errorf("%s on %.40q (%d bytes): %v and %d KiB", src, body, len(body), took, made>>10)
	}
	return err
}

const (
	maxTime   = 50 * time.Millisecond
	maxMemory = 8 << 20
)

// processorTime is the CPU time of this process, so other processes of a busy machine do not count.
func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func FuzzRetryIf(f *testing.F) {
	f.Add(`{res.code}!=200`, `{"code":1}`, 1)
	f.Add(`res.a[0].b in ["x"]`, `{"a":[{"b":"x"}]}`, 1)
	f.Add(`any(res, count(res, # == 1) > 2)`, `1,`, 30000)
	f.Add(`body matches "(a|b|ab)*c" && len(split(lower(body + body), ",")) > 3 ? status in 200..299 : true`, `ab`,
		32000)
	f.Add(`let a = map(res, filter(res, # in ["x"])); a == a`, `{},`, 20000)
	f.Fuzz(func(t *testing.T, src, body string, times int) {
		if len(src) > 400 || len(body) == 0 {
			return
		}
		p, err := CompileRetryIf(src)
		if err != nil {
			return
		}
		body = strings.Repeat(body, min(max(1, times), maxAnswer/len(body)+1))
		for _, b := range []string{body, "[" + strings.TrimSuffix(body, ",") + "]"} {
			_ = within(t, p, src, []byte(b[:min(len(b), maxAnswer)]))
		}
	})
}
