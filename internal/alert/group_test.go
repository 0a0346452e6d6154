package alert

import (
	"strings"
	"testing"
	"time"
)

// TestAlertsAreGroupedByCauseAndOwner: topics of one owner with the same cause are one group, since the first of them.
// An acknowledged, muted or recovering alert is in another group, after those that need somebody.
func TestAlertsAreGroupedByCauseAndOwner(t *testing.T) {
	t.Parallel()
	now := time.Now()
	topic := func(name, kind, answer string, ago time.Duration) Alert {
		return Alert{Key: "topic/" + name, Topic: name, Kind: kind, BeganAt: now.Add(-ago),
			Causes: []Cause{{Kind: kind, Answer: answer}}}
	}
	acknowledged, muted, over := topic("a4", "breaker", "500", 0), topic("a5", "breaker", "500", 0),
		topic("a6", "breaker", "500", 0)
	acknowledged.Handling = Handling{By: "ann"}
	muted.Handling = Handling{By: "ann", Until: new(now.Add(time.Hour))}
	over.Causes[0].Recovering = true
	list := []Alert{
		acknowledged, muted, over,
		{Key: "shard/s1", Kind: "shard_down", Shard: "s1", Causes: []Cause{{Kind: "shard_down"}}},
		{Key: "shard/s2", Kind: "shard_down", Shard: "s2", Causes: []Cause{{Kind: "shard_down"}}},
		topic("a1", "breaker", "500", time.Minute), topic("a2", "breaker", "500", time.Hour),
		topic("a3", "breaker", "timeout", 0), topic("b1", "breaker", "500", 0), topic("b2", "late", "", 0),
		topic("x1", "late", "", 0), topic("x2", "late", "", 0),
	}
	owner := func(topic string) string {
		return map[string]string{"a": "payments", "b": "crm"}[strings.Trim(topic, "123456")]
	}
	groups := GroupByCause(list, owner, now)
	var titles []string
	for _, g := range groups {
		titles = append(titles, g.Title(english(t)("en")))
	}
	want := []string{
		"shard s1 is down", "shard s2 is down", "2 topics of payments: the endpoint returns 500",
		"topic a3: the endpoint times out", "topic b1: the endpoint returns 500", "topic b2 is late",
		"2 topics: late callbacks",
		"topic a4: the endpoint returns 500", "topic a5: the endpoint returns 500", "a6 is recovering",
	}
	if got := strings.Join(titles, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("the groups are\n%s", got)
	}
	if since := groups[2].Since(); !since.Equal(now.Add(-time.Hour)) {
		t.Errorf("the group began %s ago", now.Sub(since))
	}
	if !groups[7].Alerts[0].Calm(now) || groups[6].Alerts[0].Calm(now) {
		t.Error("an acknowledged alert needs somebody, or an open one nobody")
	}
	twice := Group{Alerts: []Alert{over, over}, Owner: "crm"}
	if got := twice.Title(english(t)("en")); got != "2 topics of crm: recovering, was: Endpoint failing" {
		t.Errorf("two recovering topics are %q", got)
	}
}
