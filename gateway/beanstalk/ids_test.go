package beanstalk

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"
)

// oneSetting is a registry with one setting.
type oneSetting struct {
	text  []byte
	away  error // of its database
	calls int
}

func (s *oneSetting) EditSetting(_ context.Context, _, _ string, value any, edit func() error) error {
	if s.calls++; s.away != nil {
		return s.away
	}
	if s.text != nil {
		if err := json.Unmarshal(s.text, value); err != nil {
			return err
		}
	}
	if err := edit(); err != nil {
		return err
	}
	var err error
	s.text, err = json.Marshal(value)
	return err
}

// TestIDsBeginAtOne and continue behind those of imported jobs, because some clients store ids in 32 bits. Imported jobs
// keep their ids unless a gateway, or another import, may have assigned them.
func TestIDsBeginAtOne(t *testing.T) {
	r, ctx := &oneSetting{}, t.Context()
	own := ids{registry: r}
	take := func() uint64 {
		t.Helper()
		id, err := own.take(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	imports := func(process string, last uint64) span {
		t.Helper()
		s, err := spanOf(ctx, r, process, last)
		if err != nil {
			t.Fatal(err)
		}
		if s.Last < last {
			t.Errorf("%s may use ids up to %d, and has assigned %d", process, s.Last, last)
		}
		return s
	}
	if err := own.refill(ctx, false); err != nil { // a gateway that runs before the import
		t.Fatal(err)
	}
	first := imports("a:11300", 500)
	if first.Offset != 0 {
		t.Errorf("ids of the first server are offset by %d", first.Offset)
	}
	used := take()
	if used <= first.Last || used > 1<<31 {
		t.Errorf("the gateway's first id is %d, and the server may assign those up to %d", used, first.Last)
	}
	if again := imports("a:11300", 600); again != first {
		t.Errorf("when its import continues, the server has the ids %+v, before %+v", again, first)
	}
	second := imports("b:11300", 9)
	if second.Offset < used {
		t.Errorf("ids of the second server are offset by %d, and the gateway has assigned %d", second.Offset, used)
	}
	for range 3 * block {
		if used = take(); second.Offset < used && used <= second.Offset+second.Last {
			t.Fatalf("id %d is one of the second server, %+v", used, second)
		}
	}
	if more := imports("a:11300", first.Last+1); more.Offset < used {
		t.Errorf("ids of the first server, used up, are offset by %d; the gateway has assigned %d", more.Offset, used)
	}
	if id, err := (&ids{registry: &oneSetting{}}).take(ctx); err != nil || id != 1 {
		t.Errorf("a fresh gateway begins with id %d, %v", id, err)
	}
}

// TestPutsContinueWithoutTheRegistry as long as ids are in reserve. After that, not every put queries its database.
func TestPutsContinueWithoutTheRegistry(t *testing.T) {
	r, ctx := &oneSetting{}, t.Context()
	own := ids{registry: r}
	if err := own.refill(ctx, true); err != nil {
		t.Fatal(err)
	}
	r.away = errors.New("the database is away")
	for n := range uint64(block) {
		if id, err := own.take(ctx); err != nil || id != n+firstID {
			t.Fatalf("id %d, %v", id, err)
		}
	}
	before := r.calls
	for range 100 {
		if _, err := own.take(ctx); !errors.Is(err, r.away) {
			t.Fatalf("without an id: %v", err)
		}
	}
	if asked := r.calls - before; asked > 10 {
		t.Errorf("the database was queried %d times for 100 puts", asked)
	}
	own.failed, r.away = time.Time{}, nil
	if id, err := own.take(ctx); err != nil || id != block+firstID {
		t.Errorf("then, id %d, %v", id, err)
	}
}
