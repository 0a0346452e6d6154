package client

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestTasks: what is sent about tasks, and what the answers say.
func TestTasks(t *testing.T) {
	const one = `{"id":"7","action":"shift","by":"1h0m0s","filter":{"topic":"shop.*","state":"delayed"},
		"state":"running","matched":9,"done":5,
		"skipped":{"running":1,"gone":2,"changed":1},"failed":0,"started_by":"token:x",
		"created_at":"2026-01-02T03:04:05.678Z","updated_at":"2026-01-02T03:04:06.678Z"}`
	var sent, key string
	c := newClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent, key = r.Method+" "+r.RequestURI+" "+string(body), r.Header.Get("Idempotency-Key")
		answer := one
		if r.Method == http.MethodGet && !strings.HasSuffix(r.URL.Path, "/7") {
			answer = `{"tasks":[` + one + `]}`
		}
		_, _ = io.WriteString(w, answer)
	}), 0)
	check := func(got *Task, err error, want string) {
		t.Helper()
		if err != nil || got.ID != "7" || !got.Open() || got.By.Std() != time.Hour || got.Filter.Topic != "shop.*" ||
			got.Matched != 9 || got.Skipped != (TaskSkipped{1, 2, 1}) || strings.TrimSpace(sent) != want {
			t.Errorf("%+v, %v; sent %s, want %s", got, err, sent, want)
		}
	}
	ask := TaskStart{
		Action: "shift", By: Duration(time.Hour), Filter: TaskFilter{Topic: "shop.*", State: "delayed", Status: 503},
		Rate: 2.5,
	}
	got, err := c.StartTask(t.Context(), ask)
	check(got, err, `POST /v1/tasks {"action":"shift","filter":{"topic":"shop.*","state":"delayed","status":503},`+
		`"by":"1h0m0s","rate":2.5}`)
	made := key
	if _, err := c.StartTask(t.Context(), ask); err != nil || made == "" || key == made {
		t.Errorf("keys %s and %s, %v", made, key, err)
	}
	ask.Key = "mine"
	if _, err := c.StartTask(t.Context(), ask); err != nil || key != "mine" {
		t.Errorf("key %s, %v", key, err)
	}
	got, err = c.Task(t.Context(), "7")
	check(got, err, "GET /v1/tasks/7")
	got, err = c.CancelTask(t.Context(), "7")
	check(got, err, "DELETE /v1/tasks/7")
	list, err := c.Tasks(t.Context(), 5)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	check(&list[0], nil, "GET /v1/tasks?limit=5")
}
