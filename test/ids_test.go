package test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/harness"
)

// TestIDsThatTheServerMakes: a job that is pushed without an id is found by the id in the answer, whatever happens to
// it.
func TestIDsThatTheServerMakes(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{})
	topic := i.topic(t, nil, nil)
	j := i.MustPush(t, topic, M{"body": "single", "delay": "1h"})
	batch := i.MustDo(t, http.StatusOK, http.MethodPost, "/v1/jobs", M{"jobs": []M{
		{"topic": topic, "body": "far", "delay": "2h"}, {"topic": topic, "body": "near", "delay": "1s"},
		{"topic": topic, "body": "now"},
	}})
	if strings.Contains(batch.String(), `"error"`) {
		t.Fatal(batch)
	}
	path := "/v1/topics/" + topic + "/jobs/" + j.ID
	if got := i.MustGet(t, topic, j.ID); got.ID != j.ID || !got.DueAt.Equal(j.DueAt) {
		t.Errorf("got %+v, pushed %+v", got, j)
	}
	i.MustDo(t, http.StatusOK, http.MethodPost, "/v1/topics/"+topic+"/jobs", M{"id": j.ID, "body": "again"})
	i.MustDo(t, http.StatusConflict, http.MethodPost, "/v1/topics/"+topic+"/jobs",
		M{"id": j.ID, "body": "again", "on_duplicate": "error"})
	listed := i.MustList(t, topic, "delayed")
	far := ""
	for _, l := range listed {
		if l.ID != j.ID && l.DueAt.After(time.Now().Add(time.Hour)) {
			far = l.ID
		}
	}
	i.MustDo(t, http.StatusOK, http.MethodPatch, path, M{"delay": "3h"})
	i.MustDo(t, http.StatusAccepted, http.MethodPost, path+"/run", nil)
	i.MustDo(t, http.StatusNoContent, http.MethodDelete, "/v1/topics/"+topic+"/jobs/"+far, nil)
	i.MustDo(t, http.StatusNotFound, http.MethodDelete, "/v1/topics/"+topic+"/jobs/"+far, nil)
	bodies := map[string]string{}
	for _, c := range i.endpoint.WaitCalls(t, topic, 3) {
		bodies[string(c.Body)] = c.ID
	}
	if bodies[`"single"`] != j.ID || bodies[`"near"`] == "" || bodies[`"now"`] == "" || len(bodies) != 3 {
		t.Errorf("called: %v", bodies)
	}
}
