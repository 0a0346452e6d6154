package harness

import (
	"context"
	"net/http"
	"slices"
	"testing"
)

// The methods below end the test when the API does not do what they ask for.

// MustDo makes a request that must be answered with the given status; 0: with 200 or 201.
func (a *API) MustDo(t testing.TB, status int, method, path string, body any) Answer {
	t.Helper()
	answer := a.Do(context.Background(), method, path, body)
	anyOf := []int{status}
	if status == 0 {
		anyOf = []int{http.StatusOK, http.StatusCreated}
	}
	if answer.Err != nil || !slices.Contains(anyOf, answer.Status) {
		t.Fatalf("%s %s: %s, want status %v", method, path, answer, anyOf)
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

// MustPutTopic registers a topic.
func (a *API) MustPutTopic(t testing.TB, name string, topic M) {
	t.Helper()
	a.MustDo(t, 0, http.MethodPut, "/v1/topics/"+name, topic)
}

// MustPush pushes one job and returns it.
func (a *API) MustPush(t testing.TB, topic string, fields M) Job {
	t.Helper()
	return mustDecode[Job](t, a.MustDo(t, 0, http.MethodPost, "/v1/topics/"+topic+"/jobs", fields))
}

// MustGet returns a job that exists.
func (a *API) MustGet(t testing.TB, topic, id string) Job {
	t.Helper()
	return mustDecode[Job](t, a.MustDo(t, http.StatusOK, http.MethodGet, JobPath(topic, id), nil))
}

// MustStats returns the counts of a topic.
func (a *API) MustStats(t testing.TB, topic string) Stats {
	t.Helper()
	return mustDecode[Stats](t, a.MustDo(t, http.StatusOK, http.MethodGet, "/v1/topics/"+topic+"/stats", nil))
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
