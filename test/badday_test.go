package test

import (
	"cmp"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/alert"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/test/freeport"
	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/redistest"
	"github.com/wakecall/wakecall/test/smtptest"
)

// badDay is 36 minutes of an installation with 44 topics and 10,000 delayed jobs. Endpoints hang, answer 500 and 429,
// or refuse connections; one topic is paused; one is limited to five calls a second and has far too many jobs; two more
// have a backlog, and one is flooded; and Redis is suspended for a while. Two people are on call. The day is
// compressed: minute is the duration of one of its minutes, and the intervals between messages are shortened to match.
type badDay struct {
	*installation
	t      *testing.T
	smtp   *smtptest.Server
	minute time.Duration
	began  time.Time
	told   []*foretold
}

const badDayTopics, badDayJobs, badDayLimited = 41, 7500, 2500 // without the backlogs

var (
	onCall  = []string{"ann@test.example", "bob@test.example"}
	failing = []string{"answers.500", "answers.500x", "answers.503", "answers.429", "answers.429x", "hangs",
		"hangs.too",
		"refuses"}
	ownerOf = map[string]string{"answers.500": "payments", "answers.500x": "payments", "answers.503": "crm",
		"answers.429": "mail", "answers.429x": "mail", "hangs": "search", "hangs.too": "search"}
)

// TestABadDayIsFewMailsAndLines: `make bad-day` runs it more slowly.
func TestABadDayIsFewMailsAndLines(t *testing.T) {
	t.Parallel()
	redis := harness.StartRedis(t, harness.RedisOptions{})
	d := startBadDay(t, redis)
	d.register()
	d.began = time.Now()
	d.push()
	flood := harness.StartLoad(t, d.API, harness.NewLedger(), harness.LoadOptions{Topic: "flooded", Rate: 20})
	overview := d.signedIn()
	d.forecasts(overview)

	d.until(5)
	d.MustPutTopic(t, "paused", M{"callback_url": d.endpoint.URL("/paused"), "state": "paused"})
	limited, slow := d.ask("limited.soon", overview), d.ask("slow", overview)
	d.until(12)
	flooded, paused := d.ask("flooded", overview), d.ask("paused", overview)
	refuses, hangs := d.ask("refuses", overview), d.ask("hangs", overview)
	d.until(18)
	later := d.ask("flooded", overview)
	flood.Stop()
	d.until(20)
	before := len(d.smtp.Mails())
	redis.Pause()
	waitMail(t, d.smtp, onCall[0], "shard redis-1 is down")
	waitMail(t, d.smtp, onCall[1], "shard redis-1 is down")
	if n := len(d.smtp.Mails()) - before; n > len(onCall) {
		t.Errorf("%d mails about the outage", n)
	}
	redis.Resume()
	d.until(31)
	ended := d.ask("flooded", overview)
	d.until(36)
	d.shrank(ended, d.ask("flooded", overview))
	d.judgeMails()
	d.judgeOverview(overview)
	d.triage()
	d.isCleared(limited)
	d.isCleared(slow)
	d.grew(flooded, later)
	d.isUnknown(paused, "paused", "paused by")
	d.isUnknown(refuses, "breaker", "the circuit breaker is open")
	d.isUnknown(hangs, "breaker", "the circuit breaker is open")
	d.truth(overview)
}

func startBadDay(t *testing.T, redis *redistest.Server) *badDay {
	t.Helper()
	minute, err := time.ParseDuration(cmp.Or(os.Getenv("WAKECALL_BAD_DAY"), "2s"))
	if err != nil {
		t.Fatal(err)
	}
	d := &badDay{t: t, smtp: smtptest.Start(t), minute: minute, installation: start(t, onRedis(redis))}
	d.mailing(t, d.smtp, d.settings)
	d.WaitRole("redis-checker", 1)
	d.WaitRole("admin", 1)
	return d
}

func (d *badDay) settings(s *alert.Settings) {
	s.Recipients = nil
	for _, to := range onCall {
		s.Recipients = append(s.Recipients, alert.Recipient{Address: to})
	}
	s.GroupWait = registry.Duration(d.minute / 2)
	s.DigestAfter = registry.Duration(10 * d.minute)
	s.RemindAfter = registry.Duration(max(time.Minute, 30*d.minute))
	s.Rules.OverAfter = registry.Duration(max(15*time.Second, 2*d.minute)) // long enough to be seen recovering
}

// until waits until a minute of the day.
func (d *badDay) until(minute int) {
	time.Sleep(time.Until(d.began.Add(time.Duration(minute) * d.minute)))
}

func (d *badDay) register() {
	answers := map[string]harness.Behaviour{
		"answers.500":  harness.Status(http.StatusInternalServerError),
		"answers.500x": harness.Status(http.StatusInternalServerError),
		"answers.503":  harness.Status(http.StatusServiceUnavailable),
		"answers.429":  harness.Status(http.StatusTooManyRequests),
		"answers.429x": harness.Status(http.StatusTooManyRequests), "hangs": harness.Hang(),
		"hangs.too": harness.Hang(),
	}
	for _, name := range failing {
		fields := M{"ttr": "1s", "max_attempts": 3, "retry": []string{"2s", "5s"}, "emails": onCall,
			"owner": ownerOf[name]}
		if name == "refuses" {
			fields["callback_url"] = fmt.Sprintf("http://127.0.0.1:%d/", freeport.TCP(d.t))
		}
		d.put(d.t, name, answers[name], fields)
	}
	d.put(d.t, "paused", nil, nil)
	d.put(d.t, "limited", nil, M{"rate_limit": 5})
	d.registerBacklogs()
	for _, name := range d.healthy() {
		d.put(d.t, name, nil, nil)
	}
}

func (d *badDay) healthy() (names []string) {
	for n := range badDayTopics - len(failing) - 2 {
		names = append(names, fmt.Sprintf("fine.%02d", n))
	}
	return names
}

// push spreads jobs over the day, and those of the limited topic over two real minutes, the subject of its forecast.
func (d *badDay) push() {
	topics := slices.Concat(failing, d.healthy(), []string{"paused"})
	jobs := d.backlogJobs()
	for n := range badDayJobs {
		due := time.Duration(n) * 33 * d.minute / badDayJobs
		jobs = append(jobs, M{"topic": topics[n%len(topics)], "body": n, "delay": due.Seconds()})
	}
	for n := range badDayLimited {
		jobs = append(jobs, M{"topic": "limited", "body": n, "delay": float64(n) * 120 / badDayLimited})
	}
	for some := range slices.Chunk(jobs, 1000) {
		d.MustDo(d.t, http.StatusOK, http.MethodPost, "/v1/jobs", M{"jobs": some})
	}
}

// signedIn returns a function that reads a page of the admin, or a part of one.
func (d *badDay) signedIn() func(path string, part bool) string {
	v := &viewer{signIn(d.t, d.Wakecall), d.AdminURL()}
	return func(path string, part bool) string {
		body, err := v.get(path, part)
		if err != nil {
			d.t.Fatal(err)
		}
		return body
	}
}

// limitedLate is the forecast for 2,500 jobs due within two minutes, at five a second; they begin at a minute of the
// forecast or in the middle of one.
var limitedLate = regexp.MustCompile(`limited will be [56] to ([89]|10) min late`)

// forecasts checks that the first screen shows how late the limited topic will be.
func (d *badDay) forecasts(overview func(string, bool) string) {
	harness.Eventually(d.t, soon, "the forecast of the limited topic", func() error {
		if part := overview("/overview/late", true); !limitedLate.MatchString(part) {
			return fmt.Errorf("the forecast is %s", part)
		}
		return nil
	})
}

// textOf returns the plain text of a mail.
func textOf(t *testing.T, m smtptest.Mail) string {
	t.Helper()
	_, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	_, raw, _ := strings.Cut(m.Raw, "\r\n\r\n")
	part, err := multipart.NewReader(strings.NewReader(raw), params["boundary"]).NextPart()
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(part)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (d *badDay) judgeMails() {
	texts := map[string]string{}
	for _, m := range d.smtp.Mails() {
		texts[m.To] += "\n--- " + textOf(d.t, m)
	}
	n := len(d.smtp.Mails())
	d.t.Logf("%d mails:%s", n, texts[onCall[0]])
	const each = 6 // endpoints begin to fail one after the other, and each is reported within a minute
	if n > each*len(onCall) || len(texts) != len(onCall) {
		d.t.Errorf("%d mails to %d people, want at most %d to each of %d:%s", n, len(texts), each, len(onCall),
			texts[onCall[1]])
	}
	for _, to := range onCall {
		unnamed := slices.DeleteFunc(slices.Clone(failing), func(name string) bool {
			return strings.Contains(texts[to], "topic "+name+endpointFails)
		})
		if len(unnamed) > d.leftOut() {
			d.t.Errorf("no mail to %s says that %s fail:%s", to, unnamed, texts[to])
		}
	}
}

var overviewLine = regexp.MustCompile(`class="list-group-item [^>]*href="([^"]*)"`)

func (d *badDay) judgeOverview(overview func(string, bool) string) {
	page := overview("/", false)
	seen := map[string]bool{}
	lines := overviewLine.FindAllStringSubmatch(page, -1)
	d.t.Logf("%d lines in the overview", len(lines))
	for _, line := range lines {
		if seen[line[1]] {
			d.t.Errorf("%s has two lines", line[1])
		}
		seen[line[1]] = true
	}
	if len(lines) < 2 || len(lines) > 10 {
		d.t.Errorf("there are %d lines", len(lines))
	}
	alerts := overview("/alerts", false)
	for _, name := range failing {
		if !strings.Contains(alerts, "topic "+name+": the endpoint is failing") {
			d.t.Errorf("%s is not among the alerts", name)
		}
	}
	for _, want := range []string{"topic paused is paused", "topic limited is late", "returns 429",
		"times out",
		"refuses connections"} {
		if !strings.Contains(alerts, want) {
			d.t.Errorf("the alerts lack %q", want)
		}
	}
}
