package shards_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/internal/callback"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

func TestShardsAreRegistered(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("root")
	if status, body := s.Post("/shards/-/new", "name", "s1", "url", "redis://:hush@h:6379/0", "state",
		"active"); status != http.StatusOK || strings.Contains(body, "hush") {
		t.Fatalf("got %d\n%s", status, body)
	}
	s.Shows("/shards", "redis://:***@h:6379/0")
	s.Shows("/shards/s1/edit", "redis://:***@h:6379/0")
	if status, _ := s.Post("/shards/-/new", "name", "s1", "url",
		"redis://h:1/0"); status != http.StatusUnprocessableEntity {
		t.Errorf("a name that is in use got %d", status)
	}
	if status, _ := s.Post("/shards/s1/edit", "url", "redis://:***@h:6379/0", "state",
		"offline"); status != http.StatusOK {
		t.Errorf("keeping the password got %d", status)
	}
	if status, body := s.Post("/shards/s1/edit", "url",
		"redis://:***@elsewhere:6379/0"); status != http.StatusUnprocessableEntity ||
		!strings.Contains(body, "enter the password again") {
		t.Errorf("the stored password for another host got %d", status)
	}
	list := s.Registry.ListShards()
	if len(list) != 1 || list[0].URL != "redis://:hush@h:6379/0" || list[0].State != registry.ShardOffline {
		t.Errorf("the registry has %+v", list)
	}
	s.Post("/shards/s1/state", "state", "active")
	if status, _ := s.Post("/shards/s1/delete"); status != http.StatusConflict {
		t.Errorf("removing an active shard got %d", status)
	}
	s.Post("/shards/s1/state", "state", "offline")
	s.Post("/shards/s1/delete")
	if list := s.Registry.ListShards(); len(list) != 0 {
		t.Errorf("the registry still has %+v", list)
	}
}

func TestConnectionIsTested(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, func(o *admin.Options) { o.OpenShard = openShard }).As("root")
	if _, body := s.Post("/shards/test", "url", "redis://127.0.0.1:1/0"); !strings.Contains(body, "failed:") ||
		!strings.Contains(body, "refused") {
		t.Errorf("got\n%s", body)
	}
	if _, body := s.Post("/shards/test", "url", "nonsense"); !strings.Contains(body, "URL:") {
		t.Errorf("got\n%s", body)
	}
}

// An admin learns nothing about other servers by testing a connection: forbidden addresses and Unix sockets are not
// reached, and nothing that a server answers is shown.
func TestConnectionTestRevealsNothing(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, func(o *admin.Options) { o.OpenShard = openShard }).As("root")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "SSH-2.0-hush\r\n")
			_ = c.Close()
		}
	}()
	socket := filepath.Join(t.TempDir(), "s")
	for url, says := range map[string]string{
		"redis://" + l.Addr().String(): "No Redis answers at this address",
		"redis://169.254.1.1:6379/0":   "This address is not allowed",
		"rediss://[fe80::1]:6379/0":    "This address is not allowed",
		"redis+cluster://169.254.1.1":  "This address is not allowed",
		"unix://" + socket:             "Unix sockets cannot be entered here",
	} {
		if _, body := s.Post("/shards/test", "url", url); !strings.Contains(body, says) || strings.Contains(body, "hush") {
			t.Errorf("%s: got\n%s", url, body)
		}
	}
	if _, body := s.Post("/shards/-/new", "name", "one", "url", "unix://"+socket); !strings.Contains(
		body, "Unix sockets cannot be entered here") || len(s.Registry.ListShards()) > 0 {
		t.Errorf("a shard at a socket is saved: %s", body)
	}
	stored := registry.Shard{Name: "one", URL: "unix://" + socket, State: registry.ShardActive}
	admintest.Must(t, s.Registry.PutShard(t.Context(), "test", stored))
	if _, body := s.Post("/shards/test", "was", "one", "url", stored.URL); strings.Contains(body, "cannot be entered") {
		t.Errorf("a registered shard cannot be tested: %s", body)
	}
}

func TestShardsNeedRoles(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("ops")
	for _, path := range []string{"/shards/-/new", "/shards/test", "/shards/x/delete", "/alerts/mail",
		"/alerts/mail/test",
		"/alerts/rules", "/alerts/webhooks"} {
		if status, _ := s.Post(path); status != http.StatusForbidden {
			t.Errorf("an operator got %d from %s", status, path)
		}
	}
}

func openShard(ctx context.Context, s registry.Shard) (*store.Shard, func(), error) {
	q := queue.Open(store.Options{Timeout: time.Second, Control: callback.Control})
	done := func() { _ = q.Close() }
	if err := q.Shards.Set([]store.ShardConfig{{Name: s.Name, URL: s.URL, State: string(s.State)}}); err != nil {
		return nil, done, err
	}
	return q.Shards.All()[0], done, nil
}

// TestAShardThatWasChangedMeanwhileIsNotOverwritten: the form shows another user's change of the shard, and does not
// restore a removed one.
func TestAShardThatWasChangedMeanwhileIsNotOverwritten(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("root")
	put := func(state registry.ShardState) {
		t.Helper()
		admintest.Must(t, s.Registry.PutShard(t.Context(), "test",
			registry.Shard{Name: "one", URL: "redis://:secret@127.0.0.1:1/0", State: state}))
	}
	put(registry.ShardActive)
	seen := regexp.MustCompile(`name="seen" value="([^"]+)"`)
	first := seen.FindStringSubmatch(s.Shows("/shards/one/edit"))
	put(registry.ShardDraining)
	form := func(seen string) []string {
		return []string{"name", "one", "url", "redis://127.0.0.1:2/0", "state", "active", "seen", seen}
	}
	status, body := s.Post("/shards/one/edit", form(first[1])...)
	if status != http.StatusConflict || !strings.Contains(body, "It is now: draining, redis://:") ||
		!strings.Contains(body, "redis://127.0.0.1:2/0") || strings.Contains(body, "secret") {
		t.Fatalf("an outdated form: %d\n%s", status, body)
	}
	if status, _ := s.Post("/shards/one/edit", form(seen.FindStringSubmatch(body)[1])...); status != http.StatusOK ||
		s.Registry.ListShards()[0].URL != "redis://127.0.0.1:2/0" {
		t.Errorf("saving again: %d", status)
	}
	admintest.Must(t, s.Registry.DeleteShard(t.Context(), "test", "one"))
	if status, _ := s.Post("/shards/one/edit", form("")...); status != http.StatusNotFound ||
		len(s.Registry.ListShards()) > 0 {
		t.Errorf("saving a removed shard: %d", status)
	}
}

// TestTheOnlyShardIsNotDrainedByItsForm, nor by the button beside it: its jobs could not be moved anywhere.
func TestTheOnlyShardIsNotDrainedByItsForm(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("root")
	one := registry.Shard{Name: "one", URL: "redis://127.0.0.1:1/0", State: registry.ShardActive}
	admintest.Must(t, s.Registry.PutShard(t.Context(), "test", one))
	status, body := s.Post("/shards/one/edit", "name", "one", "url", one.URL, "state", "draining")
	if status != http.StatusUnprocessableEntity || !strings.Contains(body, "only active shard") {
		t.Errorf("draining the only shard: %d\n%s", status, body)
	}
	if state := s.Registry.ListShards()[0].State; state != registry.ShardActive {
		t.Errorf("the shard is %s", state)
	}
}
