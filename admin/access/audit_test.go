package access

import (
	"encoding/json"
	"slices"
	"testing"
)

func TestDifferencesAreReadable(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		before, after string
		want          []difference
	}{
		{`{"a":1,"b":"x"}`, `{"a":1,"b":"y"}`, []difference{{"b", "x", "y"}}},
		{`{"h":{"X-A":"1","X-B":"2"}}`, `{"h":{"X-A":"1","X-B":"3","X-C":""}}`,
			[]difference{{"h.X-B", "2", "3"}, {"h.X-C", "", `""`}}},
		{`{"retry":["1m","3m"],"n":null}`, `{"retry":["1m"],"n":0}`, []difference{{"n", "", "0"}, {"retry", "1m, 3m",
			"1m"}}},
		{`null`, `{"a":true}`, []difference{{"a", "", "true"}}},
		{`{"a":{"b":[{"c":1}]}}`, `null`, []difference{{"a.b", `[{"c":1}]`, ""}}},
		{`null`, `["token/first","user/admin"]`, []difference{{"", "", "token/first, user/admin"}}},
		{`{"h":{}}`, `{"h":{"X":"1"}}`, []difference{{"h", "{}", ""}, {"h.X", "", "1"}}},
		{`null`, `null`, nil},
	} {
		if got := differences(json.RawMessage(x.before), json.RawMessage(x.after)); !slices.Equal(got, x.want) {
			t.Errorf("%s → %s: %q; want %q", x.before, x.after, got, x.want)
		}
	}
}
