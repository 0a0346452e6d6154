package importer_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/gateway/importer"
	"github.com/wakecall/wakecall/gateway/importer/importtest"
	"github.com/wakecall/wakecall/test/harness"
)

func TestOneImportAtATime(t *testing.T) {
	t.Parallel()
	db := importtest.Redis(t)
	lock := func(db *redis.Client) error { return (&importer.Claims{Redis: db}).Lock(t.Context()) }
	if err := lock(db); err != nil {
		t.Fatal(err)
	}
	o := *db.Options()
	second := importer.Connect(&o)
	if err := lock(second); !errors.Is(err, importer.ErrLocked) {
		t.Errorf("a second import: %v, want ErrLocked", err)
	}
	if err := lock(db); err != nil {
		t.Errorf("the first one: %v", err)
	}
	o.DB = 1
	elsewhere := importer.Connect(&o)
	if err := lock(elsewhere); err != nil {
		t.Errorf("an import from another database of the server: %v", err)
	}
	_ = elsewhere.Close()
	_ = db.Close() // as if the process was killed
	harness.Eventually(t, time.Minute, "the second import continues", func() error { return lock(second) })
	_ = second.Close()
}

// TestScriptsRunOnOldServers: before 5.0, a server accepts no write after TIME unless it replicates commands.
func TestScriptsRunOnOldServers(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../*/*.lua")
	if err != nil || len(files) < 2 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		before, _, found := strings.Cut(string(source), "redis.call('TIME')")
		if found && !strings.Contains(before, "if redis.replicate_commands then redis.replicate_commands() end") {
			t.Errorf("%s reads the time without replicating commands", file)
		}
	}
}
