package overview_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/internal/alert"
	"github.com/wakecall/wakecall/internal/observe/history"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// waiting is a queue whose topics have ready and dead jobs.
type waiting struct{ admintest.Queue }

func (*waiting) Counts(context.Context) (map[string]store.Stats, error) {
	return map[string]store.Stats{"grows": {Ready: 1200}, "shrinks": {Ready: 7, Dead: 3}, "stays": {Dead: 40},
		"over": {}}, nil
}

// slopes is a history in which a column of some series rises or falls within the last minutes.
type slopes struct{ admintest.FixedHistory }

func (slopes) Series(_ context.Context, series, _ string) (history.Points, error) {
	levels := map[string][]float64{"grows": {100, 1000}, "over": {100, 1000},
		"shrinks": {900, 7}, "stays": {40, 41}, "shard/s1": {500, 500}}
	l, known := levels[series]
	if !known {
		return history.Points{}, errors.New("the database is away")
	}
	values := []*float64{&l[0], nil, &l[1], nil}
	return history.Points{Times: []int64{0, 60, 300, 360},
		Values: map[string][]*float64{"ready": values, "dead": values, "jobs": values}}, nil
}

// TestEachProblemSaysHowBadItIs: since when, how many jobs it affects, where that is heading, and who is responsible;
// what is unknown is not shown as zero.
func TestEachProblemSaysHowBadItIs(t *testing.T) {
	t.Parallel()
	var store *alert.Store
	s := admintest.Open(t, func(o *admin.Options) {
		store = alert.NewStore(o.Registry.DB())
		o.Alerts, o.Queue, o.History = store, &waiting{}, slopes{}
	})
	topic := registry.NewTopic("grows")
	topic.CallbackURL, topic.Owner = "http://127.0.0.1:1/hook", "team-payments"
	_, err := s.Registry.PutTopic(t.Context(), "test", topic)
	admintest.Must(t, err)
	s.AddTopic("shrinks")
	s.AddTopic("stays")
	s.AddTopic("over")
	for _, a := range []alert.Alert{
		{Topic: "grows", Kind: "no_consumer"}, {Topic: "shrinks", Kind: "no_consumer"},
		{Topic: "over", Kind: "late"}, {Topic: "stays", Kind: "dead"}, {Topic: "gone", Kind: "topic_unknown"},
		{Shard: "s1", Kind: "shard_down"}, {Shard: "s2", Kind: "shard_down"},
	} {
		a.Key, a.Severity, a.BeganAt = "topic/"+a.Topic+a.Shard, alert.Critical, time.Now().Add(-12*time.Minute)
		a.Causes = []alert.Cause{{Kind: a.Kind, Severity: alert.Critical, N: 1}}
		admintest.SaveAlert(t, store, a)
	}
	body := s.As("look").Shows("/")
	line := func(to string) string {
		_, after, _ := strings.Cut(body, `href="`+to+`"`)
		line, _, _ := strings.Cut(after, "</a>")
		return line
	}
	for to, texts := range map[string][]string{
		"/topics/grows":   {"Since", "12m ", "1,200 jobs wait", "growing", "owner: team-payments"},
		"/topics/shrinks": {"7 jobs wait", "shrinking", "no owner"},
		"/topics/stays":   {"40 dead jobs", "steady"},
		"/topics/gone":    {"jobs affected: unknown"},
		"/shards/s1":      {"500 jobs on the shard", "steady"},
		"/shards/s2":      {"12m ", "jobs affected: unknown"},
	} {
		for _, text := range texts {
			if !strings.Contains(line(to), text) {
				t.Errorf("the line of %s does not say %q: %s", to, text, line(to))
			}
		}
	}
	if strings.Contains(line("/topics/over"), "growing") {
		t.Errorf("no jobs wait, and they are growing: %s", line("/topics/over"))
	}
}
