package registry

import (
	"strings"
	"testing"
)

// TestTopicsStoredWithFsyncHaveReplica: earlier versions had that durability, and no topic must become less durable
// without notice.
func TestTopicsStoredWithFsyncHaveReplica(t *testing.T) {
	for stored, want := range map[string]Durability{
		"fsync": DurabilityReplica, "replica": DurabilityReplica, "memory": DurabilityMemory, "": DurabilityMemory,
	} {
		row := topicRow{Name: "t", Spec: `{"callback_url":"http://localhost/","durability":"` + stored + `"}`}
		if x, err := row.topic(testKey); err != nil || x.Durability != want {
			t.Errorf("%q in the database was read as %+v, %v", stored, x, err)
		}
		s, err := decodeSnapshot(strings.NewReader(
			`{"revision":1,"topics":{"t":{"name":"t","durability":"` + stored + `"}}}`))
		if err != nil || s.Topics.Get("t").Durability != want {
			t.Errorf("%q in the snapshot was read as %+v, %v", stored, s, err)
		}
	}
}
