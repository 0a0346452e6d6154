package test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/test/harness"
)

// soon limits the wait for something that should happen at once.
const soon = harness.Patience

// busy is the delay that a busy machine may add to a measured time. A failing mechanism adds more: tests configure it
// that way.
const busy = 20 * time.Second

type (
	// M is a JSON object.
	M = harness.M
	// installation is a running Wakecall and an endpoint for its callbacks.
	installation struct {
		*harness.Wakecall
		endpoint *harness.Endpoint
	}
)

var ctx = context.Background()

// start starts an installation for this test.
func start(t *testing.T, opts harness.Options) *installation {
	t.Helper()
	needProcesses(t)
	return &installation{harness.StartWakecall(t, opts), harness.StartEndpoint(t)}
}

// needProcesses skips a test that starts real processes when only quick tests are wanted.
func needProcesses(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts real processes; run without -short")
	}
}

var notInTopics = regexp.MustCompile(`[^a-z0-9]+`)

// topic registers a topic named after the test, whose endpoint path has the given behaviour (nil: 200), and returns its
// name.
func (i *installation) topic(t *testing.T, b harness.Behaviour, fields M) string {
	t.Helper()
	name := topicName(t)
	i.put(t, name, b, fields)
	return name
}

func topicName(t *testing.T) string {
	name := strings.Trim(notInTopics.ReplaceAllString(strings.ToLower(strings.TrimPrefix(t.Name(), "Test")), "-"), "-")
	name = name[max(0, len(name)-60):]
	return strings.TrimLeft(name, "-")
}

// put registers a topic under a name, or changes it.
func (i *installation) put(t *testing.T, name string, b harness.Behaviour, fields M) {
	t.Helper()
	i.endpoint.Set("/"+name, b)
	topic := M{"callback_url": i.endpoint.URL("/" + name)}
	maps.Copy(topic, fields)
	i.MustPutTopic(t, name, topic)
}

// waitGone waits until a job no longer exists, as after its delivery: it is finished, if it is remembered.
func (i *installation) waitGone(t *testing.T, topic, id string) {
	t.Helper()
	harness.Eventually(t, soon, fmt.Sprintf("%s/%s to be gone", topic, id), func() error {
		var job harness.Job
		answer := i.Do(ctx, http.MethodGet, harness.JobPath(topic, id), nil)
		if answer.Status == http.StatusNotFound || answer.JSON(&job) == nil && job.State == client.Done {
			return nil
		}
		return fmt.Errorf("it answers %s", answer)
	})
}

// waitState waits until a job is in a state, and returns it.
func (i *installation) waitState(t *testing.T, topic, id, state string) harness.Job {
	t.Helper()
	var j harness.Job
	harness.Eventually(t, soon, fmt.Sprintf("%s/%s to be %s", topic, id, state), func() error {
		answer := i.Do(ctx, http.MethodGet, harness.JobPath(topic, id), nil)
		if answer.Err != nil || answer.Status != http.StatusOK {
			return fmt.Errorf("GET answers %s", answer)
		}
		j = harness.Job{}
		if err := answer.JSON(&j); err != nil {
			return err
		}
		return harness.Equal("its state", j.State, state)
	})
	return j
}

// passes pushes a marker to its own topic and waits for its call: everything that was due earlier has had its chance.
func (i *installation) passes(t *testing.T) {
	t.Helper()
	i.put(t, "marker", nil, nil)
	id := fmt.Sprintf("marker-%d", time.Now().UnixNano())
	i.MustPush(t, "marker", M{"id": id, "body": 1})
	harness.Eventually(t, soon, "the marker to be called", func() error {
		return harness.Equal("called", len(i.endpoint.CallsOf("marker", id)) > 0, true)
	})
}
