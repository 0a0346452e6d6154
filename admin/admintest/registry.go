package admintest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/alert"
	"github.com/wakecall/wakecall/internal/registry"
)

// Password is the password of all users.
const Password = "correct horse"

// Registry is a registry, with the admin's users in it.
type Registry struct {
	*registry.Registry
	*account.Store
	File string // of the database
}

// openRegistry opens a registry in a directory of the test, with the users root (admin), ops (operator) and look
// (viewer). It is a copy of one that is created once, because hashing passwords takes long.
func openRegistry(t *testing.T) Registry {
	t.Helper()
	seed, err := seed()
	Must(t, err)
	file := filepath.Join(t.TempDir(), "registry.db")
	Must(t, os.WriteFile(file, seed, 0o600))
	r, err := registry.Open(registry.Options{DSN: "sqlite:" + file, Migrate: registry.MigrateOlder, SecretKey: make([]byte, 32)})
	Must(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return Registry{r, account.NewStore(r), file}
}

var seed = sync.OnceValues(func() (db []byte, err error) {
	dir, err := os.MkdirTemp("", "wakecall-admin")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "registry.db")
	r, err := registry.Open(registry.Options{DSN: "sqlite:" + file, Migrate: registry.MigrateOlder})
	if err != nil {
		return nil, err
	}
	for name, role := range map[string]account.Role{"root": account.RoleAdmin, "ops": account.RoleOperator,
		"look": account.RoleViewer} {
		err = errors.Join(err, account.NewStore(r).CreateUser(context.Background(), "test", name, Password, role))
	}
	if err := errors.Join(err, r.Close()); err != nil { // Close also writes the log into the file
		return nil, err
	}
	return os.ReadFile(file)
})

// AddTopic registers a push topic.
func (s *Site) AddTopic(name string) {
	s.Helper()
	topic := registry.NewTopic(name)
	topic.CallbackURL = "http://127.0.0.1:1/hook"
	_, err := s.Registry.PutTopic(s.Context(), "test", topic)
	Must(s, err)
}

// SaveAlert stores an alert as the redis-checker does.
func SaveAlert(t *testing.T, store *alert.Store, a alert.Alert) {
	t.Helper()
	Must(t, store.Save(t.Context(), &alert.Changes{Alerts: []*alert.Alert{&a}}))
}

// TopicForm returns a topic's fields as its form sends them, and more pairs of name and value.
func TopicForm(pairs ...string) []string {
	return append([]string{"callback_url", "http://127.0.0.1:1/hook", "method", "POST", "content_type", "json",
		"priority", "normal", "ttr", "10s", "max_attempts", "3"}, pairs...)
}
