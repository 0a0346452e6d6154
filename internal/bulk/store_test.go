package bulk

import (
	"errors"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/test/dbtest"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

func admitAny([]Task) error { return nil }

func TestTasksAreStoredAndContinued(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		reg, err := registry.Open(registry.Options{DSN: dsn, Migrate: registry.MigrateOlder})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = reg.Close() })
		r := NewStore(reg)
		ctx := t.Context()
		id, err := r.CreateTask(
			ctx,
			Task{Kind: "redrive", Params: Params{Rate: 7}, State: "queued", Actor: "user/ann"},
			admitAny,
		)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(r.CancelTask(ctx, "user/bob", id),
			r.UpdateTask(ctx, Task{ID: id, State: "running", Done: 3, Total: 10, Errors: 1,
				Params: Params{Offset: 7}})); err != nil {
			t.Fatal(err)
		}
		got, err := r.GetTask(ctx, id)
		if err != nil || got.Done != 3 || got.Params.Offset != 7 || got.Errors != 1 || !got.CancelRequested ||
			got.Actor != "user/ann" {
			t.Errorf("%+v, %v", got, err)
		}
		if list, err := r.ListTasks(ctx, 10); err != nil || len(list) != 1 {
			t.Errorf("%+v, %v", list, err)
		}
		if _, err := r.GetTask(ctx, id+1); !errors.Is(err, ErrNoTask) {
			t.Errorf("an unknown task: %v", err)
		}
	})
}

// TestATaskOfAKeyIsCreatedOnce, for each actor; what was asked for with the key must be the same. Open tasks outlive
// those that have ended.
func TestATaskOfAKeyIsCreatedOnce(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		reg, err := registry.Open(registry.Options{DSN: dsn, Migrate: registry.MigrateOlder})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = reg.Close() })
		r := NewStore(reg)
		ask := func(actor string, p Params) (uint64, error) {
			return r.CreateTask(t.Context(), Task{Kind: p.Do, Params: p, State: Queued, Actor: actor}, admitAny)
		}
		p := Params{Filter: Filter{Topic: "shop", Since: time.Now()}, Action: Action{Do: Due, Shift: time.Hour},
			Key: "a"}
		first, err := ask("token:x", p)
		if err != nil {
			t.Fatal(err)
		}
		progress := Task{ID: first, Params: p, State: Running, Done: 3}
		progress.Params.Offset, progress.Params.Listed = 70, true
		if err := r.UpdateTask(t.Context(), progress); err != nil {
			t.Fatal(err)
		}
		if id, err := ask("token:x", p); err != nil || id != first {
			t.Errorf("repeated: %d, %v", id, err)
		}
		if id, err := ask("token:y", p); err != nil || id == first {
			t.Errorf("of another actor: %d, %v", id, err)
		}
		other := p
		other.Shift = time.Minute
		if id, err := ask("token:x", other); err == nil {
			t.Errorf("another task with the key is %d", id)
		}
		refused := errors.New("no")
		_, err = r.CreateTask(t.Context(), Task{State: Queued}, func(open []Task) error {
			if len(open) != 2 || open[1].ID != first {
				t.Errorf("open tasks: %+v", open)
			}
			return refused
		})
		if !errors.Is(err, refused) {
			t.Errorf("a task that is not admitted: %v", err)
		}
	})
}
