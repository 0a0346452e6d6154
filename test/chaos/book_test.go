package chaos

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/harness"
)

// TestTheVerdictFindsWhatIsWrong: each way to break the promise is found, and nothing else.
func TestTheVerdictFindsWhatIsWrong(t *testing.T) {
	due := time.Now()
	b := newBook()
	add := func(id string, acknowledged bool) *job {
		j := b.pushing(harness.Key{Topic: "t", ID: id})
		j.acknowledged, j.due = acknowledged, due
		return j
	}
	call := func(id string, at time.Time, status int) harness.Call {
		return harness.Call{Key: harness.Key{Topic: "t", ID: id}, At: at, Status: status}
	}
	for _, id := range []string{"fine", "lost", "early", "refused-yes", "dead", "twice"} {
		add(id, true)
	}
	add("unknown", false)
	add("deleted", true).deleted = due.Add(-time.Second)
	deleted := add("deleted-in-time", true)
	deleted.deleted, deleted.deleteTried = due.Add(time.Second), true
	b.jobs[harness.Key{Topic: "t", ID: "deleted"}].deleteTried = true
	changed := add("changed", true)
	changed.changed, changed.later = due.Add(-time.Second), due.Add(5*time.Second)
	late := due.Add(10 * time.Second)
	v := b.judge([]harness.Call{
		call("fine", late, http.StatusOK), call("early", due.Add(-time.Millisecond), http.StatusOK), call("refused-yes", late, 500),
		call("deleted", late, http.StatusOK), call("deleted-in-time", due, http.StatusOK), call("invented", late, http.StatusOK),
		call("changed", due.Add(time.Second), http.StatusOK), call("twice", late, http.StatusOK), call("twice", late, http.StatusOK),
	}, map[harness.Key]bool{{Topic: "t", ID: "dead"}: true})
	want := []string{"DELETED: t/deleted ", "EARLY: t/changed ", "EARLY: t/early ", "INVENTED: t/invented ", "LOST: t/lost ", "LOST: t/refused-yes "}
	if len(v.Wrong) != len(want) {
		t.Fatalf("found %q", v.Wrong)
	}
	for i, w := range want {
		if !strings.HasPrefix(v.Wrong[i], w) {
			t.Errorf("found %q, want %q", v.Wrong[i], w)
		}
	}
	if v.Twice != 1 || v.Dead != 1 || v.Acknowledged != 9 {
		t.Errorf("counted %+v", v)
	}
}
