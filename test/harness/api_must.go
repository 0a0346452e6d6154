package harness

import (
	"context"
	"net/http"
	"slices"
	"testing"
)

// The methods below end the test when the API does not do what they ask for.

// must makes a request that must be answered with one of the statuses.
func (a *API) must(t testing.TB, method, path string, body any, statuses ...int) Answer {
	t.Helper()
	answer := a.Do(context.Background(), method, path, body)
	if answer.Err != nil || !slices.Contains(statuses, answer.Status) {
		t.Fatalf("%s %s: %s, want status %v", method, path, answer, statuses)
	}
	return answer
}

func mustDecode[T any](t testing.TB, answer Answer) (v T) {
	t.Helper()
	if err := answer.JSON(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// MustDo makes a request that must be answered with the given status.
func (a *API) MustDo(t testing.TB, status int, method, path string, body any) Answer {
	t.Helper()
	return a.must(t, method, path, body, status)
}

// MustPutTopic registers a topic.
func (a *API) MustPutTopic(t testing.TB, name string, topic M) {
	t.Helper()
	a.must(t, http.MethodPut, "/v1/topics/"+name, topic, http.StatusOK, http.StatusCreated)
}

// MustPush pushes one job and returns it.
func (a *API) MustPush(t testing.TB, topic string, fields M) Job {
	t.Helper()
	path := "/v1/topics/" + topic + "/jobs"
	return mustDecode[Job](t, a.must(t, http.MethodPost, path, fields, http.StatusOK, http.StatusCreated))
}

// MustGet returns a job that exists.
func (a *API) MustGet(t testing.TB, topic, id string) Job {
	t.Helper()
	return mustDecode[Job](t, a.must(t, http.MethodGet, JobPath(topic, id), nil, http.StatusOK))
}

// MustStats returns the counts of a topic.
func (a *API) MustStats(t testing.TB, topic string) Stats {
	t.Helper()
	return mustDecode[Stats](t, a.must(t, http.MethodGet, "/v1/topics/"+topic+"/stats", nil, http.StatusOK))
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
