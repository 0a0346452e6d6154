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

func TestIDsOfImportedServersDoNotMeet(t *testing.T) {
	r, ctx := &oneSetting{}, t.Context()
	offset := func(server string, last uint64) uint64 {
		t.Helper()
		n, err := offsetOf(ctx, r, server, last)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	own := ids{registry: r}
	assigned, err := own.take(ctx) // a gateway is tried before the import
	if err != nil {
		t.Fatal(err)
	}
	if n := offset("a:11300", 500); n != 0 {
		t.Errorf("ids of the first server are offset by %d", n)
	}
	if assigned <= 500+room {
		t.Errorf("the gateway's first id is %d, and the server may assign %d more", assigned, room)
	}
	second := offset("b:11300", 9)
	if second <= assigned {
		t.Errorf("ids of the second server are offset by %d, and the gateway has assigned %d", second, assigned)
	}
	for range 3 * block {
		if assigned, err = own.take(ctx); err != nil || second < assigned && assigned <= second+room {
			t.Fatalf("id %d, %v: the second server has those from %d", assigned, err, second)
		}
	}
	if n := offset("c:11300", firstID); n <= assigned {
		t.Errorf("ids of the third server are offset by %d, and the gateway has assigned %d", n, assigned)
	}
	if n := offset("a:11300", 600); n != 0 {
		t.Errorf("ids of the first server are offset by %d when its import continues", n)
	}
}

// TestPutsContinueWithoutTheRegistry as long as ids are in reserve. After that, not every put queries its database.
func TestPutsContinueWithoutTheRegistry(t *testing.T) {
	r, ctx := &oneSetting{}, t.Context()
	own := ids{registry: r}
	if err := own.refill(ctx); err != nil {
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
