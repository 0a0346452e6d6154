package test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/alert"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/registry/seal"
	"github.com/wakecall/wakecall/test/dbtest"
	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/smtptest"
)

// mailing configures the alerts of an installation as the admin does.
func (i *installation) mailing(t *testing.T, smtp *smtptest.Server, adjust func(*alert.Settings)) {
	t.Helper()
	i.mailingBy(t, "sqlite:"+filepath.Join(i.Data, "registry.db"), smtp, adjust)
}

// mailingBy is the same for another database.
func (i *installation) mailingBy(t *testing.T, dsn string, smtp *smtptest.Server, adjust func(*alert.Settings)) {
	t.Helper()
	key, err := seal.LoadKey(filepath.Join(i.Data, "secret-key"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := registry.Open(registry.Options{DSN: dsn, SecretKey: key})
	if err != nil {
		t.Fatal(err)
	}
	s := alert.Defaults()
	s.Mail = alert.Mail{Host: smtp.Host, Port: smtp.Port, TLS: alert.TLSOpportunistic, From: "wakecall@test.example",
		Username: "wakecall", Password: "hunter2hunter2"}
	s.Recipients = []alert.Recipient{{Address: "ops@test.example"}}
	s.GroupWait = registry.Duration(time.Second)
	if adjust != nil {
		adjust(&s)
	}
	if err := errors.Join(
		s.Validate(), r.PutSetting(t.Context(), "test", alert.SettingName, s), r.Close()); err != nil {
		t.Fatal(err)
	}
}

func waitMail(t *testing.T, smtp *smtptest.Server, to string, words ...string) {
	t.Helper()
	harness.Eventually(t, soon, fmt.Sprintf("a mail to %s with %v in its subject", to, words), func() error {
		var have []string
		for _, m := range smtp.Mails() {
			found := strings.Contains(m.To, to)
			for _, w := range words {
				found = found && strings.Contains(m.Subject+m.Raw, w)
			}
			if found {
				return nil
			}
			have = append(have, m.To+": "+m.Subject)
		}
		return fmt.Errorf("the mails are %q", have)
	})
}

func countMails(smtp *smtptest.Server, words string) (n int) {
	for _, m := range smtp.Mails() {
		if strings.Contains(m.Subject, words) {
			n++
		}
	}
	return n
}

func TestTheBeginningAndEndOfARedisOutageAreMailed(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	smtp := smtptest.Start(t)
	smtp.WantLogin("wakecall", "hunter2hunter2")
	r := harness.StartRedis(t, harness.RedisOptions{})
	i := start(t, onRedis(r))
	i.mailing(t, smtp, nil)
	i.WaitRole("redis-checker", 1)
	r.Kill9()
	waitMail(t, smtp, "ops@test.example", "shard redis-1 is down")
	r.Restart()
	waitMail(t, smtp, "ops@test.example", "resolved: shard redis-1 is down")
}

// TestARedisOutageIsMailedWhileTheRegistryHangs, that is, while it accepts connections and never answers.
func TestARedisOutageIsMailedWhileTheRegistryHangs(t *testing.T) {
	needProcesses(t)
	dbtest.OnServers(t, func(t *testing.T, db dbtest.Stoppable) {
		smtp := smtptest.Start(t)
		r, opts := shared(t, db)
		i := start(t, opts)
		i.mailingBy(t, db.DSN("wakecall"), smtp, func(s *alert.Settings) { s.Rules.OverAfter = 0 })
		i.WaitRole("redis-checker", 1)
		r.Kill9()
		waitMail(t, smtp, "ops@test.example", "shard redis-1 is down")
		db.Pause()
		r.Restart()
		harness.Eventually(t, soon, "the outage to be over", func() error {
			log := i.Log(1 << 20)
			if strings.Contains(log, `subject="shard redis-1 restarted"`) ||
				strings.Contains(log, `msg="alert resolved"`) {
				return nil
			}
			return errors.New("it is not over")
		})
		before := countMails(smtp, "shard redis-1 is down")
		r.Kill9()
		harness.Eventually(t, soon, "a mail about the new outage", func() error {
			if n := countMails(smtp, "shard redis-1 is down"); n == before {
				return fmt.Errorf("%d as before", n)
			}
			return nil
		})
	})
}

// TestAMailThatHangsHoldsUpNoStop: a mail server may be down when everything else is, too.
func TestAMailThatHangsHoldsUpNoStop(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	smtp := smtptest.Stall(t, "DATA", time.Second)
	r := harness.StartRedis(t, harness.RedisOptions{})
	i := start(t, onRedis(r))
	i.mailing(t, &smtptest.Server{Host: smtp.Host, Port: smtp.Port}, nil)
	i.WaitRole("redis-checker", 1)
	r.Kill9()
	select {
	case <-smtp.Reached:
	case <-time.After(soon):
		t.Fatal("no mail was sent")
	}
	began := time.Now()
	i.Signal(syscall.SIGTERM)
	if code, took := i.WaitExit(), time.Since(began); code != 0 || took > busy {
		t.Errorf("it ended after %s with code %d", took, code)
	}
}

// TestAReloadDuringAnOutageMailsNothingTwice: the new redis-checker neither ends the alert nor begins it again.
func TestAReloadDuringAnOutageMailsNothingTwice(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	smtp := smtptest.Start(t)
	r := harness.StartRedis(t, harness.RedisOptions{})
	i := start(t, onRedis(r))
	const overAfter = 5 * time.Second
	i.mailing(t, smtp, func(s *alert.Settings) { s.Rules.OverAfter = registry.Duration(overAfter) })
	old := i.WaitRole("redis-checker", 1)
	r.Kill9()
	waitMail(t, smtp, "ops@test.example", "shard redis-1 is down")
	i.Signal(syscall.SIGHUP)
	i.WaitRole("redis-checker", 1, old...)
	began := time.Now()
	harness.Eventually(t, soon, "the new checker to run for longer than an alert needs to end", func() error {
		if left := 2*overAfter - time.Since(began); left > 0 {
			return fmt.Errorf("%s are left", left)
		}
		return nil
	})
	if n := countMails(smtp, "shard redis-1 is down"); n != 1 {
		t.Errorf("%d mails after the reload", n)
	}
	r.Restart()
	waitMail(t, smtp, "ops@test.example", "resolved: shard redis-1 is down")
	if n := countMails(smtp, "shard redis-1 is down"); n != 2 {
		t.Errorf("%d mails at the end", n)
	}
}

// TestAnAlertmanagerIsSentARedisOutage: it fires while Redis is down, and is resolved afterwards.
func TestAnAlertmanagerIsSentARedisOutage(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	type posted struct {
		Labels map[string]string `json:"labels"`
		EndsAt time.Time         `json:"endsAt"`
	}
	var last atomic.Pointer[posted] // about the shard
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var list []posted
		if err := json.NewDecoder(r.Body).Decode(&list); err != nil || r.URL.Path != "/api/v2/alerts" {
			t.Errorf("%s: %v", r.URL, err)
		}
		for _, a := range list {
			if a.Labels["alertname"] == "WakecallShardDown" && a.Labels["shard"] == "redis-1" {
				last.Store(&a)
			}
		}
	}))
	defer srv.Close()
	r := harness.StartRedis(t, harness.RedisOptions{})
	opts := onRedis(r)
	opts.Env["WAKECALL_ALERT_ALERTMANAGER_URL"] = srv.URL
	i := start(t, opts)
	i.WaitRole("redis-checker", 1)
	fires := func(want bool) func() error {
		return func() error {
			a := last.Load()
			return harness.Equal("firing", a != nil && a.EndsAt.After(time.Now()), want)
		}
	}
	r.Kill9()
	harness.Eventually(t, soon, "the alert", fires(true))
	r.Restart()
	harness.Eventually(t, soon, "its end", fires(false))
}

func TestDeadJobsAreMailedToTheirTopicsAddresses(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	smtp := smtptest.Start(t)
	i := start(t, harness.Options{})
	i.mailing(t, smtp, nil)
	db := i.registryFile(t)
	harness.Eventually(t, soon, "the count of deaths to begin", func() error {
		var n int
		if err := db.QueryRow("SELECT count(*) FROM alert_deaths").Scan(&n); err != nil {
			return err
		}
		return harness.Equal("counted", n > 0, true)
	})
	topic := i.topic(t, harness.Status(http.StatusInternalServerError),
		M{"max_attempts": 1, "emails": []string{"shop@test.example"}})
	if a := i.Push(t.Context(), topic, M{"id": "order-42", "body": 1}); a.Status != http.StatusCreated {
		t.Fatalf("the push: %s", a)
	}
	harness.Eventually(t, soon, "the digest", func() error {
		for _, m := range smtp.Mails() {
			if m.To == "shop@test.example" && strings.Contains(m.Raw, "order-42") &&
				strings.Contains(m.Subject, "dead") {
				return nil
			}
		}
		return fmt.Errorf("%d mails", len(smtp.Mails()))
	})
}
