package callback

import (
	"errors"
	"net/http"
	"strings"
	"testing"
)

// TestRetryIfIsBounded: whatever an expression computes from an answer of 64 KiB takes at most 50 ms and 8 MiB.
func TestRetryIfIsBounded(t *testing.T) {
	bodies := map[string]string{
		"text":    strings.Repeat("a", maxAnswer),
		"list":    "[" + strings.Repeat("1,", 32000) + "1]",
		"lists":   "[" + strings.Repeat("[],", 20000) + "[]]",
		"objects": "[" + strings.Repeat(`{"":1},`, 9000) + "1]",
		"deep":    strings.Repeat("[", 9000) + strings.Repeat("]", 9000),
		"words":   "[" + strings.Repeat(`"`+strings.Repeat("w", 1000)+`",`, 60) + "1]",
	}
	limited := func(src string) (is bool) {
		t.Helper()
		p, err := CompileRetryIf(src)
		if err != nil {
			t.Errorf("%s: %v", src, err)
			return true
		}
		for _, body := range bodies {
			err := within(t, p, src, []byte(body))
			is = is || err != nil &&
				(errors.Is(err, errBudget) || strings.Contains(err.Error(), "more than") ||
					strings.Contains(err.Error(), "memory"))
		}
		return is
	}
	for _, src := range []string{
		`len(body) > 1`, `lower(body) == upper(body)`, `body + body contains "x"`, `res == res`,
		`res in [res, res, res]`,
		`body matches "^[a-z]+$"`, `body matches "(?i)error|failed"`,
	} {
		if limited(src) {
			t.Errorf("%s hit the limit", src)
		}
	}
	for _, src := range []string{
		`body matches "(a?){30}a{30}b"`, `all(res, all(res, true))`, `count(res, any(res, # > 1)) == 1`,
		`any(res, # == res)`,
		`len(map(1..9000, map(1..9000, #))) > 0`, `len(1..10000000) > 0`, `any(1..9000, body contains "b")`,
		`any(1..9000, body + body == "")`, `len(split(body, "")) == 1`, `any(1..9000, lower(body) == "")`,
		`any(1..9000, # in res)`, `any(res, any(res, # in [1, "a", nil, res]))`, `any(1..9000, body matches "b")`,
		`len(map(res, [#, #, #, #, #, #, #, #, #, #, #, #, #, #, #, #, #, #, #, #])) > 1`,
		`let a = body + body; let b = a + a; let c = b + b; let d = c + c; d + d == "x"`,
		`any(filter(res, any(filter(res, true), true)), false)`,
	} {
		if !limited(src) {
			t.Errorf("%s did not hit the limit", src)
		}
	}
}

// TestRetryIfAllowsLittle: expressions that could multiply data, or are not documented, are refused when a topic is
// saved.
func TestRetryIfAllowsLittle(t *testing.T) {
	for _, src := range []string{
		`len(replace(replace(body,"a",body),"a",body)) == 1`, `body matches body`,
		`len(join(split(body,""),body)) == 1`,
		`repeat(body, 1000) == ""`, `body matches "` + strings.Repeat("a{1000}", 30) + `"`, `body matches ("a" + body)`,
		`_meter == nil`, `_do(1) == 1`, `$env == nil`, `reduce(res, #acc + #) == 1`, `sortBy(res, #) == []`,
		`fromJSON(body) == 1`,
		`{"a": 1} == res`, `(1; true)`, `now() == nil`, `toBase64(body) == ""`, `body matches "("`,
		`len(groupBy(res, #)) > 1`,
		`body matches "` + strings.Repeat("a", 300) + `"`, `res.x() == 1`, `status == "x"`, `date(body) == nil`,
	} {
		if _, err := CompileRetryIf(src); err == nil {
			t.Errorf("%s is allowed", src)
		} else if !strings.Contains(err.Error(), "line 1, column") {
			t.Errorf("%s: no position in %v", src, err)
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
		{`status in 200..299`, ``, true, false},
		{`status not in [200, 201] or not (body startsWith "ok")`, `no`, true, false},
		{`status >= 200 and status < 300 ? body endsWith "!" : false`, `fine!`, true, false},
		{`int(res.n) + 1 == 3 and float("1.5") == 1.5 and string(res.n) == "2"`, `{"n":2}`, true, false},
		{`body matches "(?i)error|failed"`, `an ERROR`, true, false},
		{`body[0:2] == "ok"`, `okay`, true, false},
		{`res.n matches "x"`, `{"n":1}`, false, true},
		{`(res.n ?? 7) * 2 - 4 == 10 and -1 < 0`, `{}`, true, false},
		{`len(res.list) == 2 and trim(upper(res.s)) == "X"`, `{"list":[1,2],"s":" x "}`, true, false},
		{`find(res, .id == 2)?.name == "b" and one(res, .id == 1) and none(res, .id == 3)`,
			`[{"id":1},{"id":2,"name":"b"}]`,
			true, false},
		{`len(map(filter(res, # > 1), # + 1)) == 2`, `[1,2,3]`, true, false},
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
