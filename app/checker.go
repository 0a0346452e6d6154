package app

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/wakecall/wakecall/app/setup"
	"github.com/wakecall/wakecall/checker"
	"github.com/wakecall/wakecall/internal/alert"
	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/observe/activity"
	"github.com/wakecall/wakecall/internal/observe/history"
	"github.com/wakecall/wakecall/internal/pause"
	"github.com/wakecall/wakecall/internal/reconcile"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/master"
	"github.com/wakecall/wakecall/web"
)

// newChecker returns the redis-checker, which checks shards and does the other work that only one process per host
// does.
func (p *parts) newChecker() (role, error) {
	caller, err := p.newCaller()
	if err != nil {
		return role{}, err
	}
	say, err := sayings()
	if err != nil {
		return role{}, err
	}
	var alerts *alert.Alerts
	leads := func() bool { return alerts.Leads() } // no scrape comes before the role is complete
	c := checker.New(checker.Options{
		Shards: listAs(p.queue.Shards.All, func(s *store.Shard) checker.Shard { return s }), Changed: p.shardsChanged(),
		Jobs: p.figures(), Schedules: p.countSchedules, Known: p.hasSeries,
		Hosts:    func(ctx context.Context) ([]reconcile.Host, error) { return reconcile.Hosts(ctx, p.queue) },
		Forecast: p.forecastOf(), Host: setup.HostName(p.cfg),
		Leads: leads, MetricTopics: p.cfg.Metrics.Topics, Logger: p.log, Registerer: p.metrics,
	})
	p.recovered = func(shard string, r reconcile.Report, err error) { c.Restarted(shard, restartText(&r, err)) }
	alerts = p.newAlerts(c, caller.Client(), say)
	list := []service{
		{"shard checks", c.Run},
		{"samples", p.newSampler(c).Run},
		{"secret rotation", p.endRotations},
		{"pauses", p.endPauses},
		{"report of listeners", p.reportListeners},
		{"jobs due", p.newDue(leads).Run},
		{"draining", p.newDrainer().run},
		{"alerts", alerts.Run},
	}
	s := newServices(p.log)
	return role{
		run:    func(ctx context.Context) error { return s.run(ctx, list...) },
		status: func() map[string]any { return map[string]any{"findings": c.Findings(), "services": s.list()} },
	}, nil
}

func (p *parts) countSchedules() map[string]int {
	n, now := map[string]int{"active": 0, "paused": 0}, time.Now()
	for _, s := range p.registry.Snapshot().Schedules.All() {
		n[map[bool]string{true: "paused", false: "active"}[s.IsPaused(now)]]++
	}
	return n
}

func restartText(r *reconcile.Report, err error) message.Message {
	if err != nil {
		return message.New("finding.unrecovered", printable.Error(err))
	}
	return message.New("finding.recovered", r.Pushed, r.Ended, r.Changed, r.Restored)
}

// newAlerts returns the Alerts of the checker's findings and the queue's numbers.
func (p *parts) newAlerts(c *checker.Checker, hooks *http.Client, say func(string) alert.Say) *alert.Alerts {
	store := alert.NewStore(p.registry.DB())
	watch := alert.NewWatch(alert.Sources{
		Queue: p.figures(), Activity: activity.NewReader(p.figures()),
		Snapshot: p.registry.Snapshot, RegistryUp: p.registry.Up,
		Unknown:  p.unknownTopics,
		Journal:  p.journal.Try,
		Refused:  p.lastRefused,
		Relays:   p.relays().List,
		Deaths:   p.deaths,
		Forecast: p.forecastOf(), Schedules: p.schedules().States,
		Shards: func() []alert.ShardFinding { return shardFindings(c) }, ClaimDeaths: store.ClaimDeaths,
	})
	return alert.New(alert.Options{
		Store:    store,
		Settings: func() (alert.Settings, error) { return alert.Read(p.registry.Snapshot()) },
		Find:     watch.Find,
		Dead:     watch.Dead,
		Say:      say,
		Owner:    p.ownerOf,
		Host:     setup.HostName(p.cfg), Dir: p.cfg.DataDir,
		AdminURL: setup.PublicAdminURL(p.cfg), AlertmanagerURL: p.cfg.Alert.AlertmanagerURL,
		Web: hooks, Logger: p.log, Registerer: p.metrics,
	})
}

// repeatedDeaths is how often a process must have died in a row to be reported.
const repeatedDeaths = 3

// deaths finds the processes that the master of this host has to restart again and again. Without a master, there are
// none.
func (p *parts) deaths(ctx context.Context) []alert.Finding {
	c, texts := alert.Cause{Kind: "process", Severity: alert.Warning}, []string{}
	tree, err := master.At(p.cfg.DataDir).Ps(ctx)
	if err != nil {
		return nil
	}
	for _, x := range tree.Processes {
		if x.Deaths < repeatedDeaths {
			continue
		}
		texts = append(texts, fmt.Sprintf("%s: %d × (%s)", x.Title(), x.Deaths, x.LastExit))
		if c.N += int64(x.Deaths); c.BeganAt.IsZero() || x.Dying.Before(c.BeganAt) {
			c.BeganAt = x.Dying
		}
	}
	if len(texts) == 0 {
		return nil
	}
	c.Text = message.Plain(strings.Join(texts, "; "))
	return []alert.Finding{{Cause: c}}
}

// unknownMost limits the topics looked up in the audit trail at a time.
const unknownMost = 100

// unknownTopics returns the topics that have jobs but are missing from the registry, although nobody deleted them.
func (p *parts) unknownTopics(ctx context.Context) (map[string]int64, error) {
	topics, err := observe.Figures{Queue: p.queue}.Counts(ctx)
	if err != nil {
		return nil, err
	}
	unknown := map[string]int64{}
	for name, n := range topics {
		if p.hasTopic(name) || n.Delayed+n.Ready == 0 {
			continue
		}
		deleted, err := p.registry.TopicDeleted(ctx, name)
		if err != nil {
			return nil, err
		}
		if !deleted && !p.hasTopic(name) {
			unknown[name] = n.Delayed + n.Ready
		}
		if len(unknown) == unknownMost {
			break
		}
	}
	return unknown, nil
}

// sayings returns the message texts by language.
func sayings() (func(language string) alert.Say, error) {
	texts, err := web.LoadTexts()
	if err != nil {
		return nil, err
	}
	return func(language string) alert.Say { return texts[web.MatchLanguage(language, "")].T }, nil
}

func (p *parts) ownerOf(topic string) string { return p.registry.Snapshot().OwnerOf(topic) }

func shardFindings(c *checker.Checker) []alert.ShardFinding {
	var list []alert.ShardFinding
	for _, f := range c.Findings() {
		list = append(list, alert.ShardFinding{Shard: f.Shard, Kind: string(f.Kind), Detail: f.Detail, Since: f.Since})
	}
	return list
}

// newSampler returns the Sampler of the charts.
func (p *parts) newSampler(c *checker.Checker) *history.Sampler {
	return history.New(history.Options{
		Source: p.figures(), Store: history.NewStore(p.registry.DB()), Host: setup.HostName(p.cfg), Logger: p.log,
		Lateness: p.lateness, Topics: p.topicNames,
		Shards: func() []history.ShardReading { return shardReadings(c) },
	})
}

// lateness returns the lateness of callbacks since a time, by topic, and of all topics together under "". It omits
// shards that do not answer.
func (p *parts) lateness(ctx context.Context, topics []string, since time.Time) (map[string]history.Lateness, error) {
	reader, list := activity.NewReader(p.figures()), map[string]history.Lateness{}
	if topics == nil {
		h, err := reader.LatenessOfAll(ctx, since)
		list[""] = latenessOf(h)
		return list, err
	}
	histograms, err := reader.Lateness(ctx, topics, since)
	for topic, h := range histograms {
		list[topic] = latenessOf(h)
	}
	return list, err
}

func latenessOf(h activity.Histogram) history.Lateness {
	return history.Lateness{Count: h.Count(), P50: h.Quantile(0.5), P99: h.Quantile(0.99)}
}

func shardReadings(c *checker.Checker) []history.ShardReading {
	var list []history.ShardReading
	for _, v := range c.Views() {
		list = append(list, history.ShardReading{
			Name: v.Name, Up: v.Up, P50: v.P50, P99: v.P99,
			Memory: v.Health.Memory, MaxMemory: v.Health.MaxMemory, Jobs: v.Health.Jobs,
		})
	}
	return list
}

// rotationsEvery is how late an old secret may be dropped.
const rotationsEvery = 30 * time.Second

// endPauses resumes topics when their pause ends.
func (p *parts) endPauses(ctx context.Context) error {
	for pause.For(ctx, time.Second) {
		if !p.registry.Up() {
			continue
		}
		if err := p.registry.EndPauses(ctx, time.Now()); err != nil && ctx.Err() == nil {
			p.log.Warn("cannot end a pause; retrying", "error", err)
		}
	}
	return nil
}

// endRotations drops old signing secrets when their overlap ends.
func (p *parts) endRotations(ctx context.Context) error {
	for {
		if !pause.For(ctx, rotationsEvery) {
			return nil
		}
		if !p.registry.Up() {
			continue
		}
		if err := p.registry.EndRotations(ctx, time.Now()); err != nil && ctx.Err() == nil {
			p.log.Warn("cannot drop old signing secrets; retrying", "error", err)
		}
	}
}
