package registry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"gorm.io/gorm"
	"pgregory.net/rapid"

	"github.com/wakecall/wakecall/test/dbtest"
)

// full is the state that a process sees that reads everything.
func full(t interface{ Fatal(...any) }, r *Registry) *Snapshot {
	var s *Snapshot
	if err := r.db.Read(context.Background(), func(tx *gorm.DB) (err error) {
		var rev revisionRow
		if err := tx.Take(&rev, 1).Error; err != nil {
			return err
		}
		s, err = r.readAll(tx, rev.Value)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return s
}

// sameState compares two snapshots, except for the times when they were read.
func sameState(a, b *Snapshot) bool {
	x, y := *a, *b
	same := maps.Equal(maps.Collect(x.Notes.All()), maps.Collect(y.Notes.All())) && reflect.DeepEqual(
		maps.Collect(x.Topics.All()), maps.Collect(y.Topics.All())) && reflect.DeepEqual(
		maps.Collect(x.Schedules.All()), maps.Collect(y.Schedules.All()))
	x.Schedules, x.Topics, x.Notes, x.readAt, x.key = y.Schedules, y.Topics, y.Notes, y.readAt, y.key
	return same && reflect.DeepEqual(x, y)
}

// TestWhatChangedIsAllThatChanged: however two registries change a database, each of them reads only the changes, and
// sees the same as a process that reads everything.
func TestWhatChangedIsAllThatChanged(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		key := make([]byte, 32)
		both := [2]*Registry{}
		for i := range both {
			r, err := Open(Options{DSN: dsn, Migrate: MigrateOlder, SecretKey: key})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = r.Close() })
			both[i] = r
		}
		ctx := t.Context()
		rapid.Check(t, func(rt *rapid.T) {
			var secrets []uint64
			at := func() (*Registry, string) {
				return both[rapid.IntRange(0, 1).Draw(rt, "registry")], fmt.Sprint(
					"t",
					rapid.IntRange(0, 5).Draw(rt, "name"),
				)
			}
			text := rapid.StringMatching(`[a-z]{0,3}`)
			rt.Repeat(map[string]func(*rapid.T){
				"put": func(rt *rapid.T) {
					r, name := at()
					x := topic(name)
					x.Title = text.Draw(rt, "title")
					x.State = rapid.SampledFrom([]TopicState{TopicActive, TopicPaused}).Draw(rt, "state")
					if rapid.Bool().Draw(rt, "secret") {
						x.Secrets = []string{oneSecret}
					}
					if _, err := r.PutTopic(ctx, "me", x); err != nil {
						rt.Fatal(err)
					}
				},
				"schedule": func(rt *rapid.T) {
					r, name := at()
					_, err := r.ChangeSchedule(ctx, "me", "put", name, func(was *Schedule) (*Schedule, error) {
						if was != nil && rapid.Bool().Draw(rt, "delete it") {
							return nil, nil
						}
						next := daily(name, rapid.SampledFrom([]string{"t0", "t1"}).Draw(rt, "topic"))
						next.Priority = rapid.SampledFrom([]string{"", "high"}).Draw(rt, "priority")
						return &next, nil
					}, noPlace)
					if err != nil && !errors.Is(err, ErrNoTopic) {
						rt.Fatal(err)
					}
				},
				"delete": func(rt *rapid.T) {
					r, name := at()
					_ = r.DeleteTopic(ctx, "me", name, rapid.Bool().Draw(rt, "force"))
				},
				"pause": func(rt *rapid.T) {
					r,
						name := at()
					_ = r.SetPauseReason(ctx, "me", name, text.Draw(rt, "reason"))
				},
				"rotate": func(*rapid.T) { r, name := at(); _ = r.SetRotation(ctx, "me", name, time.Now()) },
				"end":    func(*rapid.T) { r, _ := at(); _ = r.EndRotations(ctx, time.Now()) },
				"shard": func(rt *rapid.T) {
					r, name := at()
					_ = r.PutShard(ctx, "me",
						Shard{Name: name, URL: "redis://" + text.Draw(rt, "host") + "h:6379", State: ShardActive})
				},
				"delete shard": func(*rapid.T) { r, name := at(); _ = r.DeleteShard(ctx, "me", name) },
				"token": func(rt *rapid.T) {
					r, name := at()
					_, token, err := r.CreateToken(ctx, "me", name, []Right{RightRead}, []string{"*"}, nil)
					if err != nil {
						rt.Fatal(err)
					}
					secrets = append(secrets, token.ID)
				},
				"revoke": func(rt *rapid.T) {
					if len(secrets) > 0 {
						r, _ := at()
						_ = r.RevokeToken(ctx, "me", rapid.SampledFrom(secrets).Draw(rt, "token"))
					}
				},
				"setting": func(rt *rapid.T) {
					r,
						name := at()
					_ = r.PutSetting(ctx, "me", name, text.Draw(rt, "value"))
				},
				"look": func(rt *rapid.T) {
					r, _ := at()
					if err := r.follow(ctx); err != nil {
						rt.Fatal(err)
					}
					if got, want := r.Snapshot(), full(rt, r); !sameState(got, want) {
						rt.Fatalf("it sees\n%+v\nand the database has\n%+v", got, want)
					}
				},
			})
		})
	})
}

// watch collects the names of the topics that a registry reads from its database; * means all.
func watch(t *testing.T, r *Registry) *[]any {
	t.Helper()
	var names []any
	note := func(tx *gorm.DB) {
		switch {
		case tx.Statement.Table != "topics":
		case len(tx.Statement.Vars) == 0:
			names = append(names, "*")
		default:
			names = append(names, tx.Statement.Vars...)
		}
	}
	if err := r.db.Do(t.Context(), func(tx *gorm.DB) error {
		return tx.Callback().Row().After("gorm:row").Register("note", note)
	}); err != nil {
		t.Fatal(err)
	}
	return &names
}

func TestOnlyWhatChangedIsRead(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		writer, err := Open(Options{DSN: dsn, Migrate: MigrateOlder})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = writer.Close() })
		for i := range 20 {
			put(t, writer, topic(fmt.Sprint("t", i)))
		}
		r, err := Open(Options{DSN: dsn})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Close() })
		read := watch(t, r)
		x := topic("t3")
		x.Title = "other"
		put(t, writer, x)
		if err := writer.DeleteTopic(t.Context(), "me", "t4", false); err != nil {
			t.Fatal(err)
		}
		if err := r.follow(t.Context()); err != nil || r.Snapshot().Topics.Get("t3").Title != "other" ||
			r.Snapshot().Topics.Get("t4") != nil ||
			len(*read) != 2 || slices.Contains(*read, any("*")) {
			t.Errorf("%v were read, %v: %v", *read, err, r.Snapshot().Topics.Names())
		}
	})
}

// A backup that is restored and then changed may have reached the revision that a process has seen, with other changes.
func TestARestoredBackupThatChangedIsFollowed(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		a, err := Open(Options{DSN: dsn, Migrate: MigrateOlder})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = a.Close() })
		b, err := Open(Options{DSN: dsn})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = b.Close() })
		put(t, a, topic("lost"))
		if err := b.follow(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, q := range []string{"DELETE FROM topics", "DELETE FROM change_log",
			"UPDATE revision SET value = value - 1"} {
			if err := dbtest.Run(a.db, q); err != nil {
				t.Fatal(err)
			}
		}
		put(t, a, topic("one"))
		put(t, a, topic("two"))
		if err := b.follow(t.Context()); err != nil || !sameState(b.Snapshot(), full(t, b)) {
			t.Errorf("%v; it sees %v", err, b.Snapshot().Topics.Names())
		}
	})
}
