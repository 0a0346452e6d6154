package registry

import (
	"fmt"
	"testing"
)

// TestAuditOfASettingHoldsOnlyWhatChanged: the entry for one more element does not grow with the list.
func TestAuditOfASettingHoldsOnlyWhatChanged(t *testing.T) {
	r := open(t, Options{DSN: "sqlite:" + t.TempDir() + "/registry.db"})
	type setting struct {
		Tubes []string `json:"tubes"`
		Title string   `json:"title"`
	}
	edit := func(change func(*setting)) {
		var s setting
		if err := r.EditSetting(t.Context(), "me", "grape", &s, func() error { change(&s); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 30 {
		edit(func(s *setting) { s.Tubes = append(s.Tubes, fmt.Sprintf("tube-%d", i)) })
	}
	edit(func(s *setting) { s.Tubes = s.Tubes[1:] })
	list, err := r.Audit(t.Context(), AuditFilter{Object: "setting/grape"})
	if err != nil || len(list) != 31 {
		t.Fatalf("%d entries, %v", len(list), err)
	}
	for n, want := range map[int][2]string{
		0:  {`{"tubes":["tube-0"]}`, `{"tubes":[]}`},
		1:  {`{"tubes":[]}`, `{"tubes":["tube-29"]}`},
		30: {`null`, `{"title":"","tubes":["tube-0"]}`},
	} {
		if got := [2]string{string(list[n].Before), string(list[n].After)}; got != want {
			t.Errorf("entry %d: %v; want %v", n, got, want)
		}
	}
}

func TestOnlyWhatDiffersIsKept(t *testing.T) {
	for _, c := range [][4]string{
		{`{"a":1,"b":{"c":2,"d":3}}`, `{"a":1,"b":{"c":4,"d":3}}`, `{"b":{"c":2}}`, `{"b":{"c":4}}`},
		{`{"a":1}`, `{"b":12345678901234567890}`, `{"a":1}`, `{"b":12345678901234567890}`},
		{`["a","a","b"]`, `["b","a"]`, `["a"]`, `[]`},
		{`["a","b"]`, `["b","a"]`, `["a","b"]`, `["b","a"]`},
		{`[{"n":1,"l":2},{"n":3}]`, `[{"n":1,"l":5},{"n":3}]`, `[{"l":2,"n":1}]`, `[{"l":5,"n":1}]`},
		{`{"a":[]}`, `{"a":null}`, `{"a":[]}`, `{"a":null}`},
		{`1`, `"1"`, `1`, `"1"`},
	} {
		before, after, err := onlyChanged([]byte(c[0]), []byte(c[1]))
		if err != nil || string(before) != c[2] || string(after) != c[3] {
			t.Errorf("%s to %s: %s and %s, %v", c[0], c[1], before, after, err)
		}
	}
}
