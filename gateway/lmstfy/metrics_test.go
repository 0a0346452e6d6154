package lmstfy

import (
	"os"
	"strings"
	"testing"
)

// TestMetricsAreThereOrListed in the migration guide, with what to use instead.
func TestMetricsAreThereOrListed(t *testing.T) {
	c := newClient(t)
	c.publish("q", "x")
	c.do("DELETE", "q/job/"+c.consume0("q"), "")
	c.do("PUT", "q/deadletter", "")
	c.publish("q", "y") // an empty queue has no sizes
	text := c.ask(c.admin, "GET", "/metrics", "").Body.String()
	guide, err := os.ReadFile("../../docs/guides/migrate-from-lmstfy.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.FieldsSeq(`publish_jobs consume_jobs consume_multi_jobs pool_add_jobs pool_get_jobs
		pool_delete_jobs timer_add_jobs timer_due_jobs timer_full_batches queue_direct_push_jobs queue_pop_jobs
		deadletter_respawn_jobs publish_queue_jobs consume_queue_jobs job_elapsed_ms job_ack_elapsed_ms timer_sizes
		queue_sizes deadletter_sizes max_mem_bytes used_mem_bytes connections blocking_connections total_keys
		total_ttl_keys latency qps`) {
		there := strings.Contains(text, "TYPE infra_lmstfy_redis_"+name+" ")
		if listed := strings.Contains(string(guide), "`"+name+"`"); !there && !listed {
			t.Errorf("%s is neither among the metrics nor in the guide", name)
		}
	}
}
