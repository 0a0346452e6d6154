package admin

import (
	"github.com/wakecall/wakecall/admin/access"
	"github.com/wakecall/wakecall/admin/alerts"
	"github.com/wakecall/wakecall/admin/figures"
	"github.com/wakecall/wakecall/admin/jobs"
	"github.com/wakecall/wakecall/admin/live"
	"github.com/wakecall/wakecall/admin/overview"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/admin/schedules"
	"github.com/wakecall/wakecall/admin/shards"
	"github.com/wakecall/wakecall/admin/topics"
)

// areas are the handlers of all areas.
type areas struct {
	access    *access.Handler
	alerts    *alerts.Handler
	figures   *figures.Handler
	jobs      *jobs.Handler
	overview  *overview.Handler
	schedules *schedules.Handler
	shards    *shards.Handler
	topics    *topics.Handler
}

func newAreas(o Options, pages *page.Pages, sessions *access.Sessions, hub *live.Hub) (in areas) {
	in.access = access.New(access.Options{
		Pages: pages, Sessions: sessions, Accounts: o.Accounts, Tokens: o.Registry, Audit: o.Registry,
		Proxies: o.Proxies, Uses: o.TokenUses, SignIn: o.SignIn,
	})
	in.figures = figures.New(figures.Options{
		Pages: pages, Registry: o.Registry, Queue: o.Queue, History: o.History, Activity: o.Activity,
		Alerts: o.Alerts, Refused: o.Refused, Trail: o.Registry,
	})
	in.jobs = jobs.New(jobs.Options{
		Pages: pages, Hub: hub, Registry: o.Registry, Queue: o.Queue, Counts: in.figures, Caller: o.Caller,
		Activity: o.Activity, Tasks: o.Tasks, Search: o.Search, MaxBody: int(o.Config.Server.MaxBody),
		Patience: o.Patience,
	})
	in.schedules = schedules.New(schedules.Options{
		Pages: pages, Hub: hub, Registry: o.Registry, Schedules: o.Schedules, MaxBody: int(o.Config.Server.MaxBody),
	})
	in.shards = shards.New(shards.Options{
		Pages: pages, Hub: hub, Registry: o.Registry, Editor: o.Editor, Queue: o.Queue, Master: o.Master,
		Config: o.Config, Open: o.OpenShard,
	})
	in.topics = topics.New(topics.Options{
		Pages: pages, Hub: hub, Registry: o.Registry, Secrets: o.Registry, Editor: o.Editor, Queue: o.Queue,
		Schedules: o.Schedules,
		Activity:  o.Activity, Figures: in.figures, Jobs: in.jobs, Caller: o.Caller, APIURL: o.APIURL,
	})
	in.alerts = alerts.New(alerts.Options{
		Pages: pages, Registry: o.Registry, Alerts: o.Alerts, Web: o.Web, SendMail: o.SendMail, Host: o.Host,
		AdminURL: o.AdminURL,
	})
	in.overview = overview.New(overview.Options{
		Pages: pages, Hub: hub, Figures: in.figures, Shards: in.shards, Registry: o.Registry, Queue: o.Queue,
		Master: o.Master, Relays: o.Relays, APIURL: o.APIURL, TokenFile: o.TokenFile, Weights: o.Config.Priorities,
	})
	return in
}
