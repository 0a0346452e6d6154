package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/dbtest"
)

// daily is a valid schedule.
func daily(name, topic string) Schedule {
	s := NewSchedule(name)
	s.Topic, s.Cron, s.Body, s.Shard = topic, "0 8 * * 1-5", json.RawMessage(`{}`), "redis-1"
	return s
}

func noPlace(context.Context, *Schedule, *Schedule) error { return nil }

// makes returns the edit that stores a schedule, whatever there was; nil deletes it.
func makes(s *Schedule) ScheduleEdit { return func(*Schedule) (*Schedule, error) { return s, nil } }

func putSchedule(t *testing.T, r *Registry, s Schedule) *Schedule {
	t.Helper()
	stored, err := r.ChangeSchedule(t.Context(), "me", "put", s.Name, makes(&s), noPlace)
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

// scheduled is a registry with the topics t and u and the schedule t.daily.
func scheduled(t *testing.T, dsn string) (*Registry, *Schedule) {
	t.Helper()
	r := open(t, Options{DSN: dsn})
	put(t, r, topic("t"))
	put(t, r, topic("u"))
	return r, putSchedule(t, r, daily("t.daily", "t"))
}

func TestASchedule(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		r := open(t, Options{DSN: dsn})
		put(t, r, topic("t"))
		s := daily("s", "t")
		s.StartAt = time.Date(2026, 11, 23, 8, 0, 0, 0, time.FixedZone("", 8*3600))
		s.Body = json.RawMessage(`{ "a": 1.0, "text": "<é & 🛒>" }`)
		s.Headers, s.Jitter, s.MadeBy = map[string]string{"X-Team": "shop"}, Duration(time.Minute), 7
		before := time.Now().UnixMilli()
		stored := putSchedule(t, r, s)
		if stored.Revision < before || stored.Revision > time.Now().UnixMilli() || stored.CreatedAt.IsZero() ||
			!stored.CreatedAt.Equal(stored.UpdatedAt) {
			t.Errorf("revision %d, created %v, updated %v", stored.Revision, stored.CreatedAt, stored.UpdatedAt)
		}
		if got := r.Snapshot().Schedules.Get("s"); !reflect.DeepEqual(got, stored) {
			t.Errorf("the snapshot has\n%+v, not\n%+v", got, stored)
		}
		s.StartAt = s.StartAt.UTC()
		s.Revision, s.CreatedAt, s.UpdatedAt = stored.Revision, stored.CreatedAt, stored.UpdatedAt
		if !reflect.DeepEqual(stored, &s) {
			t.Errorf("stored is\n%+v, not\n%+v", stored, &s)
		}
	})
}

func TestChangesOfASchedule(t *testing.T) {
	away := errors.New("redis-1 does not answer")
	again, moved, lost := daily("t.daily", "t"), daily("t.daily", "u"), daily("t.daily", "v")
	paused, invalid := again, again
	paused.State, invalid.Cron = TopicPaused, "hourly"
	for name, c := range map[string]struct {
		name    string // t.daily exists
		edit    ScheduleEdit
		place   error
		err     error // as it is; or that a *FieldError is expected
		changed bool
		gone    bool
	}{
		"a change":            {edit: makes(&paused), changed: true},
		"another topic":       {edit: makes(&moved), changed: true},
		"the same":            {edit: makes(&again)},
		"nothing to change":   {edit: func(*Schedule) (*Schedule, error) { return nil, ErrUnchanged }},
		"a refusal":           {edit: func(*Schedule) (*Schedule, error) { return nil, away }, err: away},
		"a topic without row": {edit: makes(&lost), err: ErrNoTopic},
		"an invalid one":      {edit: makes(&invalid), err: &FieldError{}},
		"a failing place":     {edit: makes(&paused), place: away, err: away},
		"a deletion":          {edit: makes(nil), changed: true, gone: true},
		"a failing deletion":  {edit: makes(nil), place: away, err: away},
		"an unknown name":     {name: "other", edit: makes(nil), err: ErrNoSchedule},
		"a new one":           {name: "other", edit: makes(&again), changed: true},
		"an edit in place": {edit: func(was *Schedule) (*Schedule, error) {
			was.Priority = "high"
			return was, nil
		}, changed: true},
	} {
		t.Run(name, func(t *testing.T) {
			dbtest.OnAll(t, func(t *testing.T, dsn string) {
				r, was := scheduled(t, dsn)
				name := cmp.Or(c.name, was.Name)
				if c.name != "" {
					was = nil
				}
				revision, placed := r.Snapshot().Revision, ""
				stored, err := r.ChangeSchedule(t.Context(), "you", "put", name, c.edit,
					func(ctx context.Context, old, now *Schedule) error {
						if _, limited := ctx.Deadline(); !limited || !reflect.DeepEqual(old, was) {
							t.Errorf("placed %+v, with a limit: %v", old, limited)
						}
						placed += fmt.Sprintf("%v>%v", old != nil, now != nil)
						return c.place
					})
				_, wantsField := c.err.(*FieldError)
				_, isField := errors.AsType[*FieldError](err)
				if wantsField != isField || !wantsField && !errors.Is(err, c.err) || c.err == away && err != away {
					t.Fatalf("error %v, want %v", err, c.err)
				}
				if wantPlaced := c.changed || c.place != nil; (placed != "") != wantPlaced {
					t.Errorf("placed %q", placed)
				}
				now := r.Snapshot().Schedules.Get(name)
				if c.err == nil && !reflect.DeepEqual(stored, now) || c.err != nil && stored != nil {
					t.Errorf("returned %+v, the snapshot has %+v", stored, now)
				}
				if changed := r.Snapshot().Revision > revision; changed != c.changed || !changed && was != nil && now != was &&
					!reflect.DeepEqual(now, was) || c.gone != (c.changed && now == nil) {
					t.Errorf("changed: %v; now %+v", changed, now)
				}
				if c.changed && was != nil && now != nil &&
					(now.Revision <= was.Revision || !now.CreatedAt.Equal(was.CreatedAt) || now.UpdatedAt.Before(was.UpdatedAt)) {
					t.Errorf("was %+v, is %+v", was, now)
				}
			})
		})
	}
}

// TestTheRevisionOfASchedule increases even if the clock was set back.
func TestTheRevisionOfASchedule(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		r, was := scheduled(t, dsn)
		far := time.Now().Add(time.Hour).UnixMilli()
		ahead := strings.Replace(specOf(t, was), fmt.Sprint(was.Revision), fmt.Sprint(far), 1)
		setSpec(t, r, ahead)
		next := daily("t.daily", "t")
		next.Priority = "low"
		if stored := putSchedule(t, r, next); stored.Revision != far+1 {
			t.Errorf("revision %d after %d", stored.Revision, far)
		}
	})
}

func specOf(t *testing.T, s *Schedule) string {
	t.Helper()
	spec, err := s.spec()
	if err != nil {
		t.Fatal(err)
	}
	return string(spec)
}

// setSpec overwrites the row of t.daily behind the registry's back.
func setSpec(t *testing.T, r *Registry, spec string) {
	t.Helper()
	for _, q := range []string{"UPDATE schedules SET spec = '" + spec + "'", "UPDATE revision SET value = value + 1"} {
		if err := dbtest.Run(r.db, q); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.follow(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestADamagedScheduleKeepsItsLastState(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		r, was := scheduled(t, dsn)
		valid := r.Snapshot().Schedules.Get("t.daily")
		for _, spec := range []string{"", "[]", "null", "{}x", `{"name":"another"}`} {
			setSpec(t, r, spec)
			if got := r.Snapshot().Schedules.Get("t.daily"); got != valid {
				t.Errorf("%s: the snapshot has %+v", spec, got)
			}
		}
		if stored := putSchedule(t, r, daily("t.daily", "t")); stored.Revision <= was.Revision {
			t.Errorf("it was not repaired: %+v", stored)
		}
		if got := full(t, r).Schedules.Get("t.daily"); got == nil || got.Cron != was.Cron {
			t.Errorf("the database has %+v", got)
		}
	})
}

func TestSchedulesAreFollowed(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		a, _ := scheduled(t, dsn)
		kept := putSchedule(t, a, daily("kept", "u"))
		b := open(t, Options{DSN: dsn})
		old := b.Snapshot().Schedules
		if !reflect.DeepEqual(old.Get("kept"), kept) {
			t.Fatalf("it read %+v", old.Get("kept"))
		}
		next := daily("t.daily", "t")
		next.State = TopicPaused
		putSchedule(t, a, next)
		put(t, a, topic("w"))
		if err := b.follow(t.Context()); err != nil {
			t.Fatal(err)
		}
		now := b.Snapshot().Schedules
		if now.Get("kept") != old.Get("kept") || now.Get("t.daily").State != TopicPaused ||
			old.Get("t.daily").State != TopicActive {
			t.Errorf("it sees %v", now.Names())
		}
		if _, err := a.ChangeSchedule(t.Context(), "me", "delete", "kept", makes(nil), noPlace); err != nil {
			t.Fatal(err)
		}
		if err := b.follow(t.Context()); err != nil || b.Snapshot().Schedules.Get("kept") != nil ||
			b.Snapshot().Schedules.Get("t.daily") != now.Get("t.daily") {
			t.Errorf("after the deletion it sees %v, %v", b.Snapshot().Schedules.Names(), err)
		}
	})
}

// TestSchedulesOfARestoredBackup are those of the backup; one that is in it as it was keeps its pointer.
func TestSchedulesOfARestoredBackup(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		r, _ := scheduled(t, dsn)
		kept := r.Snapshot().Schedules.Get("t.daily")
		putSchedule(t, r, daily("lost", "t"))
		for _, q := range []string{"DELETE FROM schedules WHERE name = 'lost'", "DELETE FROM change_log",
			"UPDATE revision SET value = value - 1"} {
			if err := dbtest.Run(r.db, q); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.follow(t.Context()); err != nil {
			t.Fatal(err)
		}
		if now := r.Snapshot().Schedules; now.Len() != 1 || now.Get("t.daily") != kept {
			t.Errorf("it sees %v", now.Names())
		}
	})
}

func TestSchedulesInTheSnapshotFile(t *testing.T) {
	t.Parallel()
	r, _ := scheduled(t, dbtest.SQLite(t))
	s := daily("s", "t")
	s.Body, s.Headers = json.RawMessage(`{ "<": 1.0 }`), map[string]string{"Authorization": "Bearer x"}
	s.EndAt = time.Now().Add(time.Hour)
	putSchedule(t, r, s)
	file := filepath.Join(t.TempDir(), "snapshot.json")
	for name, c := range map[string]struct {
		change func(*Snapshot)
		want   int
	}{
		"with schedules":                    {func(*Snapshot) {}, 2},
		"without, as an older version does": {func(s *Snapshot) { s.Schedules = Table[*Schedule]{} }, 0},
	} {
		was := *r.Snapshot()
		c.change(&was)
		if err := writeSnapshot(file, &was); err != nil {
			t.Fatal(err)
		}
		got, err := readSnapshot(file)
		if err != nil || got.Schedules.Len() != c.want {
			t.Fatalf("%s: %v", name, err)
		}
		for name, s := range was.Schedules.All() {
			if !reflect.DeepEqual(got.Schedules.Get(name), s) {
				t.Errorf("read\n%+v, not\n%+v", got.Schedules.Get(name), s)
			}
		}
	}
}

func TestTheAuditTrailOfASchedule(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		r, _ := scheduled(t, dsn)
		next := daily("t.daily", "t")
		next.Headers = map[string]string{"Authorization": "Bearer hidden", "X-Team": "shop"}
		putSchedule(t, r, next)
		if _, err := r.ChangeSchedule(t.Context(), "you", "delete", "t.daily", makes(nil), noPlace); err != nil {
			t.Fatal(err)
		}
		trail, err := r.Audit(t.Context(), AuditFilter{Object: "schedule/t.daily"})
		if err != nil || len(trail) != 3 {
			t.Fatalf("%+v, %v", trail, err)
		}
		del, change, create := trail[0], trail[1], trail[2]
		if string(create.Before) != "null" || string(del.After) != "null" || del.Actor != "you" || del.Action != "delete" ||
			!strings.Contains(string(create.After), `"cron":"0 8 * * 1-5"`) ||
			!strings.Contains(string(change.After), `"X-Team":"shop"`) ||
			!strings.Contains(string(change.After), `"Authorization":"`) {
			t.Errorf("%+v", trail)
		}
		for _, e := range trail {
			if strings.Contains(string(e.Before)+string(e.After), "hidden") {
				t.Errorf("a secret: %s %s", e.Before, e.After)
			}
		}
	})
}

func TestDeletingATopicWithSchedules(t *testing.T) {
	for name, c := range map[string]struct {
		schedules []string // their topics
		delete    string
		refused   []string // the schedules that are named; the others stay
	}{
		"one":                  {[]string{"t", "u"}, "t", []string{"s0"}},
		"none":                 {[]string{"u"}, "t", nil},
		"of a namespace":       {[]string{"q.a", "q.b", "q.own", "qq", "q.sub.c"}, "q.*", []string{"s0", "s1"}},
		"its own row":          {[]string{"q.a", "q.own"}, "q.own", []string{"s1"}},
		"an inner namespace":   {[]string{"q.sub.c", "q.a"}, "q.sub.*", []string{"s0"}},
		"no topic of the name": {[]string{"q.a"}, "t", nil},
	} {
		t.Run(name, func(t *testing.T) {
			dbtest.OnAll(t, func(t *testing.T, dsn string) {
				r := open(t, Options{DSN: dsn})
				for _, name := range []string{"t", "u", "qq", "q.own"} {
					put(t, r, topic(name))
				}
				for _, name := range []string{"q.*", "q.sub.*"} {
					x := NewTopic(name)
					x.Delivery = DeliveryPull
					put(t, r, x)
				}
				for i, topic := range c.schedules {
					putSchedule(t, r, daily(fmt.Sprint("s", i), topic))
				}
				snapshotSays := r.Snapshot().TopicInUse(c.delete)
				err := r.DeleteTopic(t.Context(), "me", c.delete, false)
				var used *TopicInUseError
				if errors.As(err, &used) != (c.refused != nil) || !reflect.DeepEqual(err, snapshotSays) ||
					used != nil && (!slices.Equal(used.Schedules, c.refused) || used.Topic != c.delete) {
					t.Fatalf("%v; by the snapshot: %v; want %v", err, snapshotSays, c.refused)
				}
				if c.refused == nil {
					return
				}
				if s := r.Snapshot(); s.Topics.Get(c.delete) == nil || s.Schedules.Len() != len(c.schedules) {
					t.Fatal("a refused deletion changed something")
				}
				if err := r.DeleteTopic(t.Context(), "me", c.delete, true); err != nil {
					t.Fatal(err)
				}
				s := r.Snapshot()
				for i := range c.schedules {
					name := fmt.Sprint("s", i)
					trail, err := r.Audit(t.Context(), AuditFilter{Object: "schedule/" + name, Action: "delete"})
					gone := slices.Contains(c.refused, name)
					if err != nil || (s.Schedules.Get(name) == nil) != gone || (len(trail) == 1) != gone {
						t.Errorf("schedule %s: %+v, %d deletions in the trail, %v", name, s.Schedules.Get(name), len(trail), err)
					}
				}
				if s.Topics.Get(c.delete) != nil || !sameState(s, full(t, r)) {
					t.Errorf("it sees %v, %v", s.Topics.Names(), s.Schedules.Names())
				}
			})
		})
	}
}

func TestATopicInUseNamesItsSchedules(t *testing.T) {
	t.Parallel()
	names := strings.Fields("a b c d e f g h i j k l")
	for n, want := range map[int]string{
		1:  "topic t has schedules: a",
		10: "topic t has schedules: a, b, c, d, e, f, g, h, i, j",
		12: "topic t has schedules: a, b, c, d, e, f, g, h, i, j and 2 more",
	} {
		if got := (&TopicInUseError{"t", names[:n]}).Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
