package relays

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/dbtest"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

func TestTheLastReportCounts(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		s := Store{dbtest.Open(t, dsn)}
		yes, no := func([]string) bool { return true }, func([]string) bool { return false }
		for n := range int64(2) {
			r := Relay{Name: "shop", Topics: []string{"shop.*"}, Report: Report{OldestMS: 5, Waiting: n, Error: "é"}}
			if err := s.Save(t.Context(), r, yes); err != nil {
				t.Fatal(err)
			}
		}
		list, err := s.List(t.Context())
		if err != nil || len(list) != 1 || list[0].Report != (Report{OldestMS: 5, Waiting: 1, Error: "é"}) ||
			time.Since(list[0].SeenAt) > time.Minute || list[0].Topics[0] != "shop.*" {
			t.Fatalf("%+v, %v", list, err)
		}
		if err := s.Save(t.Context(), Relay{Name: "shop", Topics: []string{"*"}}, no); !errors.Is(err, ErrOthers) {
			t.Error(err)
		}
		if err := s.Forget(t.Context(), "shop", no); !errors.Is(err, ErrOthers) {
			t.Error(err)
		}
		if err := errors.Join(s.Forget(t.Context(), "shop", yes), s.Forget(t.Context(), "shop", yes)); err != nil {
			t.Error(err)
		}
		for n := range most {
			if err := s.Save(t.Context(), Relay{Name: fmt.Sprint(n), Topics: []string{"*"}}, yes); err != nil {
				t.Fatal(err)
			}
		}
		err = s.Save(t.Context(), Relay{Name: "one more", Topics: []string{"*"}}, yes)
		if !errors.Is(err, ErrTooMany) {
			t.Error(err)
		}
	})
}
