package test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/alert"
	"github.com/wakecall/wakecall/internal/observe/history"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/relay/ddl"
	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/smtptest"
)

// shopTopic is a topic of the shop in the pictures: rate jobs a second are pushed, due after delay.
type shopTopic struct {
	name, owner, title string
	rate               float64
	delay              time.Duration
}

// mostDelay bounds the jobs that wait.
const mostDelay = time.Hour

var shopTopics = []shopTopic{
	{"shop.close", "shop", "Close unpaid orders", 2, 30 * time.Minute},
	{"shop.remind", "shop", "Remind of a full cart", 0.8, 24 * time.Hour},
	{"shop.ship", "shop", "Hand over to the carrier", 0.5, 2 * time.Minute},
	{"payments.capture", "payments", "Capture an authorized payment", 1.5, 5 * time.Minute},
	{"payments.refund", "payments", "Ask whether a refund arrived", 0.4, 10 * time.Minute},
	{"mail.welcome", "mail", "Welcome mails", 0.8, time.Minute},
	{"mail.receipt", "mail", "Receipts", 1.2, 10 * time.Second},
	{"mail.review", "mail", "Ask for a review", 0.4, 7 * 24 * time.Hour},
	{"coupon.grant", "shop", "Grant a coupon after the return period", 0.3, 14 * 24 * time.Hour},
	{"stock.release", "warehouse", "Release reserved stock", 0.6, 20 * time.Minute},
	{"crm.sync", "crm", "Copy customers to the CRM", 0.3, time.Minute},
	{"film.render", "media", "Render films", 0, 0},
}

// manyShopTopics are those of a bad day, 44.
func manyShopTopics() []shopTopic {
	list := slices.Clone(shopTopics)
	for _, x := range []struct{ owner, names string }{
		{"payments", "payments.invoice payments.payout payments.dispute payments.renew payments.expire"},
		{"shop", "cart.expire cart.remind order.confirm order.archive order.export order.split coupon.expire"},
		{"mail", "mail.digest mail.survey mail.birthday mail.unsubscribe sms.code push.notify"},
		{"warehouse", "stock.sync stock.count stock.reorder parcel.track parcel.late"},
		{"crm", "crm.score crm.merge crm.forget"},
		{"media", "image.resize image.expire film.publish"},
		{"search", "search.index search.reindex search.suggest"},
	} {
		for n, name := range strings.Fields(x.names) {
			list = append(list, shopTopic{name, x.owner, "", 0.15 + 0.05*float64(n), time.Duration(n+1) * time.Minute})
		}
	}
	return list
}

// shopDay is an installation with the topics, the people and the traffic of a shop.
type shopDay struct {
	*installation
	t      *testing.T
	topics []shopTopic
	r      *registry.Registry
	crm    *harness.Endpoint // of crm.sync
}

func startShop(t *testing.T, topics []shopTopic) *shopDay {
	t.Helper()
	one, two := harness.StartRedis(t, harness.RedisOptions{}), harness.StartRedis(t, harness.RedisOptions{})
	counted(t, one, topics)
	s := &shopDay{installation: start(t, onRedis(one, two)), t: t, topics: topics, crm: harness.StartEndpoint(t)}
	s.r = s.opened(t)
	mail := smtptest.Start(t)
	s.mailing(t, mail, func(settings *alert.Settings) {
		settings.Recipients = []alert.Recipient{{Address: "ops@shop.example"}}
	})
	for _, x := range topics {
		s.register(x)
	}
	s.scheduled(t)
	s.peopled()
	s.longAgo()
	s.relayed()
	s.push()
	s.works()
	s.traffic()
	return s
}

func (s *shopDay) register(x shopTopic) {
	s.t.Helper()
	topic := M{"title": x.title, "owner": x.owner, "callback_url": s.endpoint.URL("/" + x.name)}
	switch {
	case x.name == "film.render":
		topic = M{"title": x.title, "owner": x.owner, "delivery": "pull", "ttr": "6h"}
	case x.name == "crm.sync":
		topic["callback_url"], topic["max_attempts"] = s.crm.URL("/"+x.name), 1
	case x.name == "stock.sync":
		topic["rate_limit"] = 5
	case x.owner == "payments":
		topic["max_attempts"], topic["retry"] = 2, []string{"5s", "1h"}
	case hangs(x):
		topic["max_attempts"], topic["ttr"] = 1, "2s"
	}
	s.MustPutTopic(s.t, x.name, topic)
}

// hangs reports whether the endpoint of a topic hangs on a bad day.
func hangs(x shopTopic) bool { return x.name == "mail.review" || x.name == "mail.digest" }

// relayed carries one row of an outbox, and goes on.
func (s *shopDay) relayed() {
	s.t.Helper()
	o := newSQLiteOutbox(s.t)
	script, err := ddl.Of(ddl.SQLite, ddl.Table)
	if err != nil {
		s.t.Fatal(err)
	}
	o.exec(s.t, ddl.Statements(script)...)
	o.exec(s.t, `INSERT INTO wakecall_outbox (op, topic, job_id, body, delay_ms)
		VALUES ('push', 'shop.close', 'from-the-outbox', '{"order": 7}', 3600000)`)
	s.startRelay(s.t, o, "relay")
	o.isEmpty(s.t)
}

// push pushes the jobs that wait, and some with ids.
func (s *shopDay) push() {
	s.t.Helper()
	var jobs []M
	for _, x := range s.topics {
		waiting := int(x.rate * min(x.delay, mostDelay).Seconds())
		for n := range waiting {
			jobs = append(jobs, s.job(x, n, time.Duration(float64(n)/x.rate*float64(time.Second))))
		}
	}
	for n := range 30 {
		jobs = append(jobs, M{"topic": "shop.close", "id": fmt.Sprint("order-", n), "body": M{"order": n},
			"delay": 3600 + 40*n})
	}
	for n := range 6 {
		jobs = append(jobs, M{"topic": "shop.remind", "id": fmt.Sprint("remind-", n), "group": "customer-7",
			"body": M{"customer": 7}, "delay": 3600 * (n + 1)})
	}
	s.pushAll(jobs)
	s.MustPush(s.t, "shop.close", M{"id": "done-1", "body": M{"order": 1}})
	s.waitState(s.t, "shop.close", "done-1", "done")
	startTask(s.t, s.API, "later", M{"action": "shift", "by": "10m",
		"filter": M{"topic": "shop.close", "state": "delayed", "id_prefix": "order-"}}, http.StatusCreated)
}

func (s *shopDay) pushAll(jobs []M) {
	s.t.Helper()
	for some := range slices.Chunk(jobs, 1000) {
		s.MustDo(s.t, http.StatusOK, http.MethodPost, "/v1/jobs", M{"jobs": some})
	}
}

func (s *shopDay) job(x shopTopic, n int, delay time.Duration) M {
	return M{"topic": x.name, "body": M{strings.SplitN(x.name, ".", 2)[0]: n}, "delay": delay.Seconds(),
		"priority": []string{"high", "normal", "normal", "low"}[n%4]}
}

// works leases the jobs of the pull topic to a worker.
func (s *shopDay) works() {
	s.t.Helper()
	for n := range 7 {
		s.MustPush(s.t, "film.render", M{"id": fmt.Sprint("film-", n), "body": M{"film": n}})
	}
	c := s.client(s.t)
	for leased := 0; leased < 7; {
		jobs, err := c.Reserve(ctx, client.Reserve{Topics: []string{"film.render"}, Max: 7, Wait: 10 * time.Second})
		if err != nil || len(jobs) == 0 {
			s.t.Fatalf("reserved %d jobs, %v", len(jobs), err)
		}
		leased += len(jobs)
	}
}

// traffic pushes jobs until the test ends.
func (s *shopDay) traffic() {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	s.t.Cleanup(func() { cancel(); <-ended })
	go func() {
		defer close(ended)
		began, pushed := time.Now(), make([]int, len(s.topics))
		for tick := time.NewTicker(500 * time.Millisecond); ctx.Err() == nil; <-tick.C {
			var jobs []M
			for n, x := range s.topics {
				for ; float64(pushed[n]) < x.rate*time.Since(began).Seconds(); pushed[n]++ {
					jobs = append(jobs, s.job(x, pushed[n], min(x.delay, mostDelay)))
				}
			}
			if len(jobs) > 0 {
				s.Do(ctx, http.MethodPost, "/v1/jobs", M{"jobs": jobs})
			}
		}
	}()
}

// peopled creates users, tokens and audit entries.
func (s *shopDay) peopled() {
	s.t.Helper()
	users := account.NewStore(s.r)
	for name, role := range map[string]account.Role{"anna": account.RoleOperator, "wei": account.RoleOperator,
		"bob": account.RoleViewer} {
		s.must(users.CreateUser(ctx, "user/admin", name, "a password of "+name, role))
	}
	s.must(users.NoteSignIn(ctx, "anna", "10.1.4.23"))
	s.must(users.NoteSignIn(ctx, "bob", "10.1.4.77"))
	s.must(users.SetDisabled(ctx, "user/admin", "bob", true))
	_, _, err := s.r.CreateToken(ctx, "user/admin", "shop backend",
		[]registry.Right{registry.RightPush, registry.RightRead}, []string{"shop.*"}, nil)
	s.must(err)
	s.must(s.r.RotateSecret(ctx, "user/anna", "shop.close", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
		time.Now().Add(3*time.Hour+12*time.Minute)))
}

// longAgo moves the audit entries to earlier days.
func (s *shopDay) longAgo() {
	s.t.Helper()
	list, err := s.r.Audit(ctx, registry.AuditFilter{})
	s.must(err)
	s.must(s.r.DB().Do(ctx, func(tx *gorm.DB) error {
		for n, e := range list {
			ago := 26*time.Hour + time.Duration(n)*37*time.Minute
			if err := tx.Model(&e).Update("at", e.At.Add(-ago)).Error; err != nil {
				return err
			}
		}
		return nil
	}))
}

// pause pauses a topic as a user.
func (s *shopDay) pause(topic, reason string) {
	s.t.Helper()
	s.must(s.r.PauseTopic(ctx, "user/wei", topic, registry.Pause{Reason: reason}))
}

func (s *shopDay) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func quietDay(t *testing.T) {
	s := startShop(t, shopTopics)
	at := s.hasPast(t, s.r, s.topics)
	time.Sleep(time.Until(at.Add(2 * history.Round))) // time is what the charts show
	b := s.signIn(t)
	b.Expect("/nothing") // a page that does not exist
	b.Expect("422")      // a form with mistakes
	s.agree(b)
	alerts, err := s.client(t).Alerts(ctx)
	s.must(err)
	for _, a := range alerts { // such as a slow shard, on a machine that is too busy
		t.Errorf("the quiet day has an alert: %s %s", a.Title, a.Details)
	}
	takePictures(t, b, "quiet", slices.Concat(pages, quietPages, scenesIn("quiet")))
}

// badDayPictures is a day on which the endpoints of one owner answer 500, two hang, one refuses connections, one
// answers 429, one 410, a topic is paused, one is limited and has too many jobs, and a dispatcher was killed.
func badDayPictures(t *testing.T) {
	s := startShop(t, manyShopTopics())
	at := s.hasPast(t, s.r, s.topics)
	s.breaks()
	s.pause("stock.release", "Stocktaking until Monday, call Wei before resuming")
	s.backlog()
	s.KillRole("dispatcher")
	s.handle()
	time.Sleep(time.Until(at.Add(100 * time.Second))) // time is what the charts show
	b := s.signIn(t)
	s.agree(b)
	takePictures(t, b, "bad", append(badPages, scenesIn("bad")...))
}

// breaks changes how endpoints answer.
func (s *shopDay) breaks() {
	for _, x := range s.topics {
		switch {
		case x.owner == "payments":
			s.endpoint.Set("/"+x.name, harness.Text(http.StatusInternalServerError, "database is read-only"))
		case hangs(x):
			s.endpoint.Set("/"+x.name, harness.Hang())
		case x.name == "push.notify":
			s.endpoint.Set("/"+x.name, harness.Status(http.StatusTooManyRequests))
		case x.name == "coupon.expire":
			s.endpoint.Set("/"+x.name, harness.Status(http.StatusGone))
		}
	}
	s.crm.Stop()
}

// backlog pushes far more jobs than two topics can be called.
func (s *shopDay) backlog() {
	s.t.Helper()
	var jobs []M
	for n := range 900 {
		jobs = append(jobs, M{"topic": "stock.sync", "body": M{"article": n}})
	}
	for n := range 30 {
		jobs = append(jobs, M{"topic": "payments.capture", "id": fmt.Sprint("failed-", n), "body": M{"payment": n}},
			M{"topic": "mail.digest", "body": M{"customer": n}}, M{"topic": "crm.sync", "body": M{"customer": n}},
			M{"topic": "coupon.expire", "body": M{"coupon": n}})
	}
	s.pushAll(jobs)
}

// handle acknowledges the alert about one topic and mutes that about another.
func (s *shopDay) handle() {
	s.t.Helper()
	c := s.client(s.t)
	id := map[string]uint64{}
	harness.Eventually(s.t, time.Minute, "the alerts", func() error {
		list, err := c.Alerts(ctx)
		for _, a := range list {
			id[a.Topic] = a.ID
		}
		if err == nil && (id["crm.sync"] == 0 || id["mail.digest"] == 0) {
			err = fmt.Errorf("there are alerts about %v", id)
		}
		return err
	})
	s.must(c.AckAlert(ctx, id["crm.sync"], "The CRM is being updated, back at 18:00"))
	s.must(c.MuteAlert(ctx, id["mail.digest"], "known, see INC-112", 2*time.Hour))
}
