package harness

import (
	"context"
	"net/http"
	"testing"
)

// The methods below end the test when the API does not do what they ask for.

// MustPutTopic registers a topic.
func (a *API) MustPutTopic(t testing.TB, name string, topic M) {
	t.Helper()
	answer := a.Do(context.Background(), http.MethodPut, "/v1/topics/"+name, topic)
	if answer.Err != nil || (answer.Status != http.StatusOK && answer.Status != http.StatusCreated) {
		t.Fatalf("PUT topic %s: %s", name, answer)
	}
}

// MustPush pushes one job and returns it.
func (a *API) MustPush(t testing.TB, topic string, fields M) Job {
	t.Helper()
	answer := a.Push(context.Background(), topic, fields)
	if answer.Err != nil || (answer.Status != http.StatusCreated && answer.Status != http.StatusOK) {
		t.Fatalf("push to %s: %s", topic, answer)
	}
	var j Job
	if err := answer.JSON(&j); err != nil {
		t.Fatal(err)
	}
	return j
}

// MustGet returns a job that exists.
func (a *API) MustGet(t testing.TB, topic, id string) Job {
	t.Helper()
	answer := a.Do(context.Background(), http.MethodGet, JobPath(topic, id), nil)
	if answer.Err != nil || answer.Status != http.StatusOK {
		t.Fatalf("GET job %s/%s: %s", topic, id, answer)
	}
	var j Job
	if err := answer.JSON(&j); err != nil {
		t.Fatal(err)
	}
	return j
}

// MustDo makes a request that must be answered with the given status.
func (a *API) MustDo(t testing.TB, status int, method, path string, body any) Answer {
	t.Helper()
	answer := a.Do(context.Background(), method, path, body)
	if answer.Err != nil || answer.Status != status {
		t.Fatalf("%s %s: %s, want status %d", method, path, answer, status)
	}
	return answer
}

// MustStats returns the counts of a topic.
func (a *API) MustStats(t testing.TB, topic string) Stats {
	t.Helper()
	s, err := a.Stats(context.Background(), topic)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// MustList returns all jobs of a topic in a state.
func (a *API) MustList(t testing.TB, topic, state string) []Job {
	t.Helper()
	jobs, err := a.List(context.Background(), topic, state)
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}
