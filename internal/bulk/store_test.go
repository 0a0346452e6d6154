package bulk

import (
	"errors"
	"testing"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/test/dbtest"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

func TestTasksAreStoredAndContinued(t *testing.T) {
	dbtest.OnBoth(t, func(t *testing.T, dsn string) {
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
