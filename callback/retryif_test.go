package callback

import (
	"net/http"
	"strings"
	"testing"
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
		"res.code !": "line 1", "status ==\n  nothing": "line 2, column 3", "status": "", "1 + ": "line 1", "nothing(": "line 1",
	} {
		if _, err := CompileRetryIf(src); err == nil || !strings.Contains(err.Error(), position) {
			t.Errorf("%q: %v", src, err)
		}
	}
}

func FuzzRetryIf(f *testing.F) {
	f.Add(`{res.code}!=200`, `{"code":1}`)
	f.Add(`res.a[0].b in ["x"]`, `{"a":[{"b":"x"}]}`)
	f.Fuzz(func(t *testing.T, src, body string) {
		if len(src) > 200 {
			return
		}
		if p, err := CompileRetryIf(src); err == nil {
			_, _ = p.run(200, http.Header{}, []byte(body))
		}
	})
}
