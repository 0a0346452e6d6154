package test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/wakecall/wakecall/test/harness"
)

// TestALostSecretKeyIsForgotten: when the key of its secrets is lost, an installation prints the remedy and does not
// start; after `wakecall migrate forget-secrets` its jobs and topics still exist, and continue as soon as the secrets
// are entered again.
func TestALostSecretKeyIsForgotten(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	r := harness.StartRedis(t, harness.RedisOptions{Password: "redis-password"})
	i := start(t, onRedis(r))
	secret := M{"headers": M{"Authorization": "Bearer one"},
		"secrets": []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}}
	topic := i.topic(t, nil, secret)
	i.MustPush(t, topic, M{"id": "waits", "body": 1, "delay": "1h"})
	i.Signal(syscall.SIGTERM)
	i.WaitExit()
	if err := os.Remove(filepath.Join(i.Data, "secret-key")); err != nil {
		t.Fatal(err)
	}
	if code, out := i.Run("up"); code == 0 || !strings.Contains(out, "wakecall migrate forget-secrets") {
		t.Fatalf("up without the key: code %d\n%s", code, out)
	}
	for _, says := range []string{"of 1 topic (now paused) and the URLs of 1 shard", "nothing was removed"} {
		if out := i.succeeds(t, "migrate", "forget-secrets"); !strings.Contains(out, says) {
			t.Errorf("forget-secrets tells\n%s", out)
		}
	}
	i.succeeds(t, "shard", "put", "redis-1", "--url", r.URL(), "--state", "active")
	i.Up()
	i.WaitReady()
	var found struct {
		State   string
		Headers map[string]string
	}
	if err := i.MustDo(t, http.StatusOK, http.MethodGet, "/v1/topics/"+topic, nil).JSON(&found); err != nil ||
		found.State != "paused" || len(found.Headers) > 0 {
		t.Errorf("the topic is %+v (%v)", found, err)
	}
	i.put(t, topic, nil, secret)
	i.succeeds(t, "run", topic, "waits")
	call := i.endpoint.WaitCalls(t, topic, 1)[0]
	if call.Header.Get("Authorization") != "Bearer one" || call.Header.Get("webhook-signature") == "" {
		t.Errorf("called with %v", call.Header)
	}
	i.waitGone(t, topic, "waits")
}
