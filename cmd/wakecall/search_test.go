package main

import (
	"strings"
	"testing"
)

// TestASearchSaysThatAShardIsDown: it may have the job that was not found.
func TestASearchSaysThatAShardIsDown(t *testing.T) {
	api := newFakeAPI(t)
	api.answers = map[string]answer{
		"GET /v1/search?id=x": {200, `{"done":true,"stored":[],"jobs":[]}` + "\n"},
		"GET /v1/shards":      {200, `{"shards":[{"name":"a","up":true},{"name":"b","error":"connection refused"}]}`},
	}
	if got := api.wakecall(t, "", "search", "x"); !strings.Contains(got.err, "not searched: shard b: connection refused\n") {
		t.Errorf("code %d: %s%s", got.code, got.out, got.err)
	}
}
