package phpdq

import (
	"strings"
	"testing"
	"time"
)

func TestFormIsWhatPHPSends(t *testing.T) {
	for body, want := range map[string]string{
		`{"a":"x y&z=1","b":12,"c":true,"d":false,"e":null,"f":{"g":1},"h":[1],"i":"ä/~-_."}`: "a=x%20y%26z%3D1&b=12&c=1&d=&e=&f=Array&h=Array&i=%C3%A4%2F~-_.",
		`{"f":1.50,"g":1e3,"h":1e30,"i":-0.00001,"j":12345678901234567890,"k":0.1}`:           "f=1.5&g=1000&h=1.0E%2B30&i=-1.0E-5&j=1.2345678901235E%2B19&k=0.1",
		`{"a":1,"b":2,"a":3}`:   "a=3&b=2",
		`["x",{"y":1}]`:         "0=x&1=Array",
		`{"a b":"+","":"none"}`: "a%20b=%2B&=none",
		`"text"`:                "body=text",
		`no JSON`:               "body=no%20JSON",
		`null`:                  "", `{}`: "", `[]`: "", ``: "body=",
	} {
		if got := parseBody([]byte(body)).form(); got != want {
			t.Errorf("%s became\n%s, want\n%s", body, got, want)
		}
	}
}

func TestAQueryReplacesTheParametersOfTheAddress(t *testing.T) {
	body := parseBody([]byte(`{"id":7,"op":"close"}`))
	for address, want := range map[string]string{
		"":                       "id=7&op=close",
		"op=open&key=a%20b+c":    "op=close&key=a%20b%20c&id=7",
		"a.b=1&x[]=2&x[k]=3&=no": "a_b=1&x=Array&id=7&op=close",
	} {
		if got := body.query(address); got != want {
			t.Errorf("%s became %s, want %s", address, got, want)
		}
	}
}

func TestStamp(t *testing.T) {
	zone := time.FixedZone("there", 8*3600)
	due, added := time.Date(2026, 1, 2, 20, 0, 0, 0, time.UTC), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for body, want := range map[string]string{
		`{"a":1}`: `{"a":1,"notify_time":"2026-01-03 04:00:00","dq_set_time":"2026-01-02 11:04:05"}`,
		`{"dq_set_time":"first","notify_time":0,"a":"\u00e4"}`: `{"dq_set_time":"first","notify_time":"2026-01-03 04:00:00","a":"\u00e4"}`,
	} {
		if got := string(parseBody([]byte(body)).stamp(due, added, zone).json()); got != want {
			t.Errorf("%s became\n%s, want\n%s", body, got, want)
		}
	}
}

func TestFailedCountsOnFromWhatTheJobBrought(t *testing.T) {
	for _, c := range []struct {
		body string
		n    int
		want string
	}{
		{`{}`, 0, `{}`}, {`{}`, 2, `{"exp_notify_nums":2}`},
		{`{"exp_notify_nums":3}`, 0, `{"exp_notify_nums":3}`}, {`{"exp_notify_nums":3}`, 2, `{"exp_notify_nums":5}`},
	} {
		if got := string(parseBody([]byte(c.body)).failed(c.n).json()); got != c.want {
			t.Errorf("%s after %d became %s, want %s", c.body, c.n, got, c.want)
		}
	}
}

func TestMark(t *testing.T) {
	for _, c := range []struct {
		mark, answer string
		again        bool
	}{
		{`{res.code}!=200`, `{"code":200}`, false}, {`{res.code}!=200`, `{"code":"200"}`, false},
		{`{res.code}!=200`, `{"code":500}`, true}, {`{res.code}!=200`, `{}`, true},
		{`{res.code}!=200`, `OK`, false}, {`{res.code}!=200`, `"text"`, false}, {`{res.code}!=200`, `{"code":`, false},
		{`{res.code} != 200 && {res.data.status} != 2`, `{"code":1,"data":{"status":2}}`, false},
		{`{res.code} != 200 || {res.data.status} != 2`, `{"code":200,"data":{"status":3}}`, true},
		{`!({res.ok})`, `{"ok":true}`, false}, {`!{res.ok}`, `{"ok":"0"}`, true},
		{`!{res.ok} == true`, `{"ok":false}`, true},
		{`{res.list.0.a} == 'x'`, `{"list":[{"a":"x"}]}`, true}, {`{res.0.a} == 'x'`, `[{"a":"x"}]`, true},
		{`{res.msg} == 'it\'s'`, `{"msg":"it's"}`, true}, {`{res.msg} == "done"`, `{"msg":"done"}`, true},
		{`{res.n} > 2`, `{"n":"10"}`, true}, {`{res.n} >= '2'`, `{"n":2}`, true},
		{`{res.n} < -1.5e1`, `{"n":-16}`, true},
		{`{res.a} != 0`, `{"a":"abc"}`, false}, {`{res.a} != 0`, `{"a":""}`, false},
		{`{res.a} != 200`, `{"a":"200 OK"}`, false},
		{`{res.a} != 1`, `{"a":"abc"}`, true}, {`{res.a} < -1`, `{"a":"-1.5e1x"}`, true},
		{`{res.a} == 0`, `{"a":null}`, true}, {`{res.a} == ''`, `{}`, true},
		{`{res.a} == '1e3'`, `{"a":"1000"}`, true}, {`{res.a} == 'abc'`, `{"a":"ABC"}`, false},
		{`{res.a} == ' 1'`, `{"a":"1"}`, true}, {`{res.a} == ' 1'`, `{"a":"1 "}`, false},
		{`{res.a} === '1'`, `{"a":1}`, false}, {`{res.a} !== '1'`, `{"a":1}`, true}, {`{res.a} <> 1`, `{"a":2}`, true},
		{`{res.a} == true`, `{"a":"x"}`, true}, {`{res.a} == null`, `{"a":[]}`, true},
		{`{res.a} == {res.b}`, `{"a":[1,2],"b":{"0":"1","1":2}}`, true},
		{`{res.a}`, `{"a":[0]}`, true}, {`{res.a} > 5`, `{"a":{}}`, true}, {`{res.a} <= null`, `{"a":0}`, true},
		{`{res}`, `{}`, false}, {`{res}`, `[1]`, true}, {`{res.a.b.c}`, `{"a":1}`, false},
		{`true && false || true`, `{}`, true}, {`(true || true) && false`, `{}`, false},
	} {
		m, err := compileMark(c.mark)
		if err != nil {
			t.Errorf("%s: %v", c.mark, err)
			continue
		}
		if got := m.again([]byte(c.answer)); got != c.again {
			t.Errorf("%s of %s is %v", c.mark, c.answer, got)
		}
	}
}

func TestAWrongMarkIsRefusedWithItsPosition(t *testing.T) {
	for mark, want := range map[string]string{
		"": "column 1", "{res.code} !=": "column 14", "{res.code": "column 1", "{req.code}": "column 1",
		"system('x')": "column 1", "{res.a} == 'x": "column 12", "{res.a} + 1": "column 9", "({res.a}": "column 9",
		"{res.a} {res.b}": "column 9",
		"重试标记":            "column 1", "`id`": "column 1", "1 == 2 == 3": "column 8", "{res..a}": "column 1",
		"-":                       "column 1",
		strings.Repeat("(", 2000): "parts",
	} {
		if _, err := compileMark(mark); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.30q: %v, want %s", mark, err, want)
		}
	}
}

func FuzzMark(f *testing.F) {
	f.Add(`{res.a.b} != 'x' && !(1 < {res.c})`, `{"a":{"b":1},"c":[2]}`)
	f.Fuzz(func(_ *testing.T, mark, answer string) {
		if m, err := compileMark(mark); err == nil {
			m.again([]byte(answer))
		}
		parseBody([]byte(answer)).stamp(time.Time{}, time.Time{}, time.UTC).failed(1).query(mark)
	})
}
