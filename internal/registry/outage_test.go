package registry

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/registry/database"
	"github.com/wakecall/wakecall/test/dbtest"
)

func TestTheDatabaseMayGoAndComeBack(t *testing.T) {
	dbtest.OnServers(t, func(t *testing.T, db dbtest.Stoppable) {
		file := filepath.Join(t.TempDir(), "snapshot.json")
		r := open(t, Options{DSN: db.DSN("wakecall"), SnapshotFile: file, Poll: 50 * time.Millisecond})
		other := open(t, Options{DSN: db.DSN("wakecall"), Poll: 50 * time.Millisecond})
		x := topic("t")
		x.Secrets = []string{oneSecret}
		put(t, r, x)
		secret, _, err := r.CreateToken(t.Context(), "me", "team", []Right{RightPush}, []string{"*"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		eventually(
			t,
			"the last change is stored",
			func() bool { s, err := readSnapshot(file); return err == nil && len(s.Tokens) == 1 },
		)
		readers := readOn(t, r)

		db.Kill9()
		eventually(t, "the outage is detected", func() bool { return !r.Up() && !other.Up() })
		start := time.Now()
		if _, err := r.PutTopic(t.Context(), "me", topic("u")); !errors.Is(err, ErrUnavailable) ||
			time.Since(start) > database.Timeout+20*time.Second {
			t.Errorf("a change without the database: %v after %v", err, time.Since(start))
		}
		if _, err := r.Audit(t.Context(), AuditFilter{}); !errors.Is(err, ErrUnavailable) {
			t.Errorf("the audit trail without the database: %v", err)
		}
		again := open(t, Options{DSN: db.DSN("wakecall"), SnapshotFile: file, Poll: 50 * time.Millisecond})
		if got := again.Snapshot().Topics.Get("t"); got == nil || len(got.Secrets) != 1 || got.MaxAttempts != 10 {
			t.Errorf("after a restart without the database: %+v", got)
		}
		if token, ok := again.Snapshot().Token(secret); !ok || !token.Allows(RightPush, "t") {
			t.Errorf("the token after a restart without the database: %+v", token)
		}
		nowhere := filepath.Join(t.TempDir(), "none.json")
		if _, err := Open(Options{DSN: db.DSN("wakecall"), SnapshotFile: nowhere}); !errors.Is(err, ErrUnavailable) ||
			!strings.Contains(err.Error(), nowhere) {
			t.Errorf("a first start without the database: %v", err)
		}

		db.Start()
		for _, r := range []*Registry{r, other, again} {
			eventually(t, "the recovery is detected", r.Up)
		}
		put(t, r, topic("u"))
		for _, r := range []*Registry{r, other, again} {
			eventually(t, "changes are followed again", func() bool { return r.Snapshot().Topics.Get("u") != nil })
		}
		if n := readers(); n == 0 {
			t.Error("the snapshot was not read meanwhile")
		}
	})
}

// readOn reads a registry's snapshot continuously until it is stopped. Topic t must always exist.
func readOn(t *testing.T, r *Registry) (stop func() int) {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	var wg sync.WaitGroup
	n := 0
	wg.Go(func() {
		for ; ctx.Err() == nil; n++ {
			if r.Snapshot().Topics.Get("t") == nil {
				t.Error("the snapshot was lost with the database")
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
	return func() int { cancel(); wg.Wait(); return n }
}

// A process that started without the database later finds it with an older schema, because another host installed it
// meanwhile.
func TestTheSchemaIsMigratedWhenTheDatabaseIsBack(t *testing.T) {
	dbtest.OnServers(t, func(t *testing.T, db dbtest.Stoppable) {
		file := filepath.Join(t.TempDir(), "snapshot.json")
		if err := writeSnapshot(file, &Snapshot{Revision: 7}); err != nil {
			t.Fatal(err)
		}
		db.Kill9()
		r := open(t, Options{DSN: db.DSN("wakecall"), SnapshotFile: file, Poll: 50 * time.Millisecond})
		db.Start()
		eventually(t, "the empty database is migrated and followed", func() bool { return r.Snapshot().Revision == 1 })
		put(t, r, topic("t"))
	})
}

func TestSnapshotsOnDisk(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "snapshot.json")
	x := topic("t")
	x.Secrets, x.Headers, x.Retry = []string{oneSecret}, map[string]string{"X-Team": "shop"}, []Duration{1}
	plain := topic("u")
	s := &Snapshot{
		Revision: 3, mark: "M", Topics: NewTopics(&x, &plain),
		Shards: []Shard{{Name: "one", URL: "redis://:pw@h", State: ShardDraining}},
		Tokens: map[string]*Token{"ab": {ID: 1, Hash: "ab", Rights: []Right{RightRead}, Topics: []string{"*"}}},
	}
	for range 2 { // the second write replaces the first
		if err := writeSnapshot(file, s); err != nil {
			t.Fatal(err)
		}
	}
	privateFile(t, file)
	if entries, err := os.ReadDir(filepath.Dir(file)); err != nil || len(entries) != 1 {
		t.Errorf("files left: %v, %v", entries, err)
	}
	got, err := readSnapshot(file)
	if err != nil || got.Revision != 3 || len(got.Shards) != 1 || got.Shards[0].URL != "redis://:pw@h" ||
		!reflect.DeepEqual(got.Topics.Get("t"), &x) || !reflect.DeepEqual(got.Topics.Get("u"), &plain) ||
		got.Tokens["ab"].ID != 1 || got.mark != "M" || markInFile(file) != "M" {
		t.Errorf("read %+v, %v", got, err)
	}
}

// A start reads the file, and only later changes from the database.
func TestAStartReadsWhatChangedSinceTheFile(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		file := filepath.Join(t.TempDir(), "snapshot.json")
		first, err := Open(Options{DSN: dsn, Migrate: MigrateOlder, SnapshotFile: file})
		if err != nil {
			t.Fatal(err)
		}
		put(t, first, topic("old"))
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		other := open(t, Options{DSN: dsn})
		put(t, other, topic("new"))
		r, err := connect(Options{DSN: dsn, SnapshotFile: file})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Close() }()
		read := watch(t, r)
		if err := errors.Join(r.readFile(), r.start(t.Context())); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(*read, []any{"new"}) || !sameState(r.Snapshot(), full(t, r)) {
			t.Errorf("it read %v of the database, and has %v", *read, r.Snapshot().Topics.Names())
		}
	})
}

func TestDamagedSnapshotsAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		``, `null`, `{`, `[]`, `{}`, `"x"`, `{"revision":1,"topics":{"t":null}}`,
		`{"revision":1,"topics":{"t":{"name":"u"}}}`,
		`{"revision":1,"tokens":{"ab":null}}`, `{"revision":1,"tokens":{"ab":{"hash":"cd"}}}`,
		`{"revision":1,"topics":{"t":{"name":"t","ttr":"soon"}}}`,
	} {
		file := filepath.Join(t.TempDir(), "snapshot.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Open(Options{DSN: "mysql://u:hidden@unix(/nowhere)/db", SnapshotFile: file})
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), file) ||
			strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestAFailedSnapshotWriteIsRetried(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "later")
	file := filepath.Join(dir, "snapshot.json")
	var log syncBuffer
	open(
		t,
		Options{
			DSN:          dbtest.SQLite(t),
			SnapshotFile: file,
			Poll:         10 * time.Millisecond,
			Logger:       slog.New(slog.NewTextHandler(&log, nil)),
		},
	)
	eventually(t, "a warning", func() bool { return strings.Contains(log.String(), file) })
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the snapshot is written", func() bool { _, err := readSnapshot(file); return err == nil })
	if n := strings.Count(log.String(), "WARN"); n != 1 {
		t.Errorf("%d warnings: %s", n, log.String())
	}
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestAFailedFirstStartLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := open(t, Options{DSN: dbtest.SQLite(t)})
	fail := errors.New("no room")
	failAudit := func(tx *gorm.DB) {
		if tx.Statement.Table == "audit" { // the last step before the commit
			_ = tx.AddError(fail)
		}
	}
	if err := r.db.Do(t.Context(), func(tx *gorm.DB) error {
		return tx.Callback().Create().Before("gorm:create").Register("fail", failAudit)
	}); err != nil {
		t.Fatal(err)
	}
	if made, err := r.Bootstrap(t.Context(), dir, "", testUser); !errors.Is(err, fail) || made != nil {
		t.Errorf("created %v, %v", made, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("files left: %v, %v", entries, err)
	}
	if err := r.db.Do(t.Context(), func(tx *gorm.DB) error {
		return tx.Callback().Create().Remove("fail")
	}); err != nil {
		t.Fatal(err)
	}
	var fe *FieldError
	if _, err := r.Bootstrap(t.Context(), filepath.Join(dir, "none"), "", testUser); !errors.As(err, &fe) ||
		fe.Field != "data_dir" {
		t.Errorf("without the directory: %v", err)
	}
	// Files left by a crash before the commit are replaced and made private.
	if err := os.WriteFile(filepath.Join(dir, TokenFile), []byte(strings.Repeat("wk_old", 30)), 0o644); err != nil {
		t.Fatal(err)
	}
	made, err := r.Bootstrap(t.Context(), dir, "", testUser)
	if err != nil || len(made) != 2 {
		t.Fatalf("created %v, %v", made, err)
	}
	if _, ok := r.Snapshot().Token(privateFile(t, made[0])); !ok {
		t.Error("the file has another token")
	}
	if again, err := r.Bootstrap(t.Context(), t.TempDir(), "", testUser); err != nil || again != nil {
		t.Errorf("the second start created %v, %v", again, err)
	}
}
