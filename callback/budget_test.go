package callback

import (
	"net/http"
	"strings"
	"testing"
)

func TestRetryIfIsBounded(t *testing.T) {
	list := []byte("[" + strings.Repeat("1,", 20000) + "1]")
	for _, src := range []string{
		`all(res, all(res, true))`,
		`count(res, any(res, # > 1)) == 1`,
		`len(map(1..90000, map(1..90000, #))) > 0`,
		`len(1..10000000) > 0`,
	} {
		p, err := CompileRetryIf(src)
		if err != nil {
			t.Errorf("%s: %v", src, err)
			continue
		}
		if _, err := p.run(200, http.Header{}, list); err == nil {
			t.Errorf("%s ran to its end", src)
		}
	}
}

func TestRetryIfReachesWhatThereIs(t *testing.T) {
	cases := []struct {
		src, body string
		want      bool
		fails     bool
	}{
		{`any(res.orders, .state == "open")`, `{"orders":[{"state":"x"},{"state":"open"}]}`, true, false},
		{`any(res.orders, any(.items, .n > 2))`, `{"orders":[{"items":[{"n":1},{"n":3}]}]}`, true, false},
		{`res.list[-1] == 3`, `{"list":[1,2,3]}`, true, false},
		{`split(body, ",")[1] == "b"`, `a,b`, true, false},
		{`split(body, ",")[7] == nil`, `a,b`, true, false},
		{`res.a.b.c.d == nil`, `{"a":null}`, true, false},
		{`res.a.b == nil`, `{"a":"text"}`, true, false},
		{`res == nil`, `{"a":1} and more`, true, false},
		{`res.s startsWith "x"`, `{}`, false, false},
		{`res.flag`, `{"flag":"yes"}`, false, true},
		{`res.flag`, `{"flag":true}`, true, false},
		{`{ res.code } != 200`, `{"code":200}`, false, false},
		{`body == "\"{res.code}"`, `"{res.code}`, true, false},
	}
	for _, x := range cases {
		p, err := CompileRetryIf(x.src)
		if err != nil {
			t.Errorf("%s: %v", x.src, err)
			continue
		}
		got, err := p.run(200, http.Header{}, []byte(x.body))
		if got != x.want || (err != nil) != x.fails {
			t.Errorf("%s on %s: %v, %v", x.src, x.body, got, err)
		}
	}
}
