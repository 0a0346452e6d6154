package test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/redistest"
	"github.com/wakecall/wakecall/test/smtptest"
)

// healing is the half of a bad day in which everything ends well. Each minute it reads the pages, the mails and the
// command line. At the end the ledger shows which of their statements were false, and for how long.
type healing struct {
	*badDay
	view   *viewer
	ledger *harness.Ledger
	redis  *redistest.Server
	said   []statement
	mails  int // read so far
	outage
}

// outage is when Redis was stopped.
type outage struct{ from, to time.Time }

func (o outage) at(t time.Time) bool { return !t.Before(o.from) && t.Before(o.to) }

// statement is what a source says about a topic or the shard.
type statement struct {
	minute              int
	at                  time.Time
	source, about, text string
}

const (
	healingMinutes = 36
	healsWithin    = 10 * time.Minute // from the beginning of the day
	outageLasts    = 12 * time.Second
	falseMost      = 30 * time.Second // how long a source may repeat a false statement
	nothing        = "nothing"        // a list of problems does not name the topic
	heals, flooded = "heals", "flooded"
	grows, shard   = "grows", "redis-1"
)

var healingTopics = []string{heals, flooded, grows}

// TestABadDayHeals: an endpoint recovers, a flood ends, a backlog that grows is limited and then ends, and Redis is
// stopped for 12 s. No page, mail or command says for longer than 30 s what the ledger shows to be false.
func TestABadDayHeals(t *testing.T) {
	t.Parallel()
	redis := harness.StartRedis(t, harness.RedisOptions{})
	h := &healing{badDay: startBadDay(t, redis), ledger: harness.NewLedger(), redis: redis}
	h.view = &viewer{signIn(t, h.Wakecall), h.AdminURL()}
	h.put(t, heals, harness.Status(500), M{"max_attempts": 1000, "retry": []string{"2s", "5s"}})
	h.put(t, flooded, nil, M{"rate_limit": 5, "owner": flooded})
	h.put(t, grows, harness.Slow(time.Second), M{"max_in_flight": 5, "owner": grows})
	h.began = time.Now()
	flow := h.load(heals, 2)
	flood, growth := h.load(flooded, 20), h.load(grows, 8)
	continued := make(chan struct{})
	events := map[int]func(){
		6: func() { flood.Stop() },
		8: func() { h.endpoint.Set("/"+heals, nil) },
		10: func() {
			h.put(t, grows, harness.Slow(time.Second), M{"max_in_flight": 5, "rate_limit": 4, "owner": grows})
		},
		14: func() { growth.Stop() },
		16: func() { h.stopRedis(continued) },
		30: func() { flow.Stop() },
	}
	for minute := 1; minute <= healingMinutes || !h.healed() && time.Since(h.began) < healsWithin; minute++ {
		h.until(minute)
		if event := events[minute]; event != nil {
			event()
		}
		h.read(minute)
	}
	<-continued
	h.ledger.Verdict(t, h.API, h.endpoint, 50) // calls whose outcome Redis did not take
	h.judge()
}

// healed reports whether the overview says that all topics recover or are well, and a mail that the endpoint is.
func (h *healing) healed() bool {
	page, err := h.view.get("/", false)
	items := itemsIn(overviewItem, page)
	for _, topic := range healingTopics {
		if text := items[topic]; text != "" && !strings.Contains(text, "is recovering") {
			return false
		}
	}
	return err == nil && slices.ContainsFunc(h.said, func(s statement) bool {
		return s.source == "mail" && strings.HasPrefix(s.text, "resolved: topic "+heals+": the endpoint")
	})
}

func (h *healing) load(topic string, rate int) *harness.Load {
	return harness.StartLoad(h.t, h.API, h.ledger, harness.LoadOptions{Topic: topic, Rate: rate, Pushers: 2})
}

// stopRedis stops Redis, and continues it while the day goes on.
func (h *healing) stopRedis(continued chan<- struct{}) {
	h.redis.Pause()
	h.from = time.Now()
	h.to = h.from.Add(outageLasts)
	time.AfterFunc(outageLasts, func() { h.redis.Resume(); close(continued) })
}

var (
	overviewItem = regexp.MustCompile(`(?s)<a class="list-group-item [^>]*href="/(?:topics|shards)/([^"]+)">(.*?)</a>`)
	alertRow     = regexp.MustCompile(`(?s)<td>\s*<div class="d-flex.*?href="/(?:topics|shards)/([^"]+)">(.*?)</td>`)
	endedCause   = regexp.MustCompile(`(?s)<div class="small wk-break text-secondary">.*?</div>`)
	healthSaid   = regexp.MustCompile(`Health ([a-z ]+) Success`)
	dueSaid      = regexp.MustCompile(`\d+ jobs? (?:are|is) already due; .*?\.(?: |$)`)
	lateSaid     = regexp.MustCompile(`jobs will be up to .*? minutes late`)
	mailSubject  = regexp.MustCompile(`(?:topic|shard) ([^ :]+)`)
)

// read records what each source says now.
func (h *healing) read(minute int) {
	say := func(source, about, text string) {
		h.said = append(h.said, statement{minute, time.Now(), source, about, strings.Join(strings.Fields(text), " ")})
	}
	list := func(source string, found map[string]string, err error) {
		for _, about := range append([]string{shard}, healingTopics...) {
			switch text, named := found[about]; {
			case err != nil:
				say(source, about, "error: "+err.Error())
			case named:
				say(source, about, text)
			default:
				say(source, about, nothing)
			}
		}
	}
	body, err := h.view.get("/", false)
	list("overview", itemsIn(overviewItem, body), err)
	body, err = h.view.get("/alerts", false)
	body, _, _ = strings.Cut(body, `<h2 class="card-title">Resolved`)
	list("alerts", itemsIn(alertRow, endedCause.ReplaceAllString(body, " ")), err)
	cli, err := h.cliAlerts()
	list("CLI alerts", cli, err)
	for _, topic := range healingTopics { // slow while Redis is stopped
		body, err = h.view.get("/topics/"+topic+"?tab=forecast", false)
		text := plain(body)
		if err != nil {
			say("topic", topic, "error: "+err.Error())
			continue
		}
		health := healthSaid.FindStringSubmatch(text)
		say("topic", topic, "health: "+health[1])
		say("forecast", topic, dueSaid.FindString(text)+" "+lateSaid.FindString(text))
	}
	stats, err := h.cliStats()
	list("CLI stats", stats, err)
	for _, m := range h.smtp.Mails()[h.mails:] {
		h.mails++
		if m.To == onCall[0] {
			for about, text := range mailed(h.t, m) {
				say("mail", about, text)
			}
		}
	}
}

// itemsIn returns the texts of a page by the topic or shard that they are about.
func itemsIn(items *regexp.Regexp, page string) map[string]string {
	texts := map[string]string{}
	for _, item := range items.FindAllStringSubmatch(page, -1) {
		texts[item[1]] = plain(item[2])
	}
	return texts
}

func (h *healing) cli(v any, args ...string) error {
	code, out := h.Run(append(args, "--output", "json")...)
	if code != 0 {
		return fmt.Errorf("exit code %d: %s", code, out)
	}
	return json.Unmarshal([]byte(out), v)
}

func (h *healing) cliAlerts() (map[string]string, error) {
	var alerts []client.Alert
	err := h.cli(&alerts, "alert", "list")
	texts := map[string]string{}
	for _, a := range alerts {
		texts[a.Topic+a.Shard] = a.Title + ": " + strings.Join(a.Details, "; ")
	}
	return texts, err
}

func (h *healing) cliStats() (map[string]string, error) {
	var stats []struct {
		Topic         string
		Ready         int
		OldestReadyMS float64 `json:"oldest_ready_ms"`
	}
	err := h.cli(&stats, "stats")
	texts := map[string]string{shard: ""}
	for _, s := range stats {
		oldest := time.Duration(s.OldestReadyMS) * time.Millisecond
		texts[s.Topic] = fmt.Sprintf("%d jobs are ready, the oldest for %s", s.Ready, oldest.Round(time.Second))
	}
	return texts, err
}

// mailed returns the lines of a mail by what they are about.
func mailed(t *testing.T, m smtptest.Mail) map[string]string {
	texts, part := map[string]string{}, ""
	lines := strings.Split(textOf(t, m), "\n")
	if _, open, found := strings.Cut(lines[0], "still open: "); found {
		lines = append(lines, "New", open)
	}
	for _, line := range lines[1:] {
		line = strings.TrimSpace(line)
		about := mailSubject.FindStringSubmatch(line)
		switch {
		case line == "New" || line == "Resolved":
			part = line
		case about != nil && part == "Resolved":
			texts[about[1]] = "resolved: " + line
		case about != nil && texts[about[1]] == "":
			texts[about[1]] = line
		}
	}
	return texts
}
