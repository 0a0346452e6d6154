package chaos

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/harness/ledger"
)

// M is a JSON object.
type M = harness.M

const (
	pushers = 24 // clients at once
	// patience is the time limit of a client's request; the result of a request without an answer is unknown.
	patience = 6 * time.Second
	// attemptsEnough is more attempts than a job ever needs.
	attemptsEnough = 1000
	// failWait is the retry wait of pull topics.
	failWait = 200 * time.Millisecond
)

// topic of the load, with its share of the pushes.
type topic struct {
	name   string
	share  int
	fields M
}

var topics = []topic{
	{"steady", 4, M{"ttr": "3s", "retry": []string{"200ms", "1s"}, "max_attempts": attemptsEnough}},
	{"slow", 2, M{"ttr": "3s", "retry": []string{"200ms", "1s"}, "max_attempts": attemptsEnough}},
	{"flaky", 2, M{"ttr": "3s", "retry": []string{"200ms", "1s"}, "max_attempts": attemptsEnough}},
	{"mortal", 1, M{"ttr": "3s", "retry": []string{"200ms"}, "max_attempts": 2}}, // a fifth of its jobs become dead
	{"wicked", 1, M{"ttr": "1s", "retry": []string{"200ms", "1s"}, "max_attempts": attemptsEnough}},
	{"limited", 1, M{"ttr": "3s", "retry": []string{"200ms", "1s"}, "max_attempts": attemptsEnough, "max_in_flight": 4,
		"rate_limit": 50}},
	{"pulled", 3, M{"delivery": "pull", "ttr": "3s", "retry": []string{failWait.String()}, "max_attempts": 0}},
	{"doomed", 1, M{"delivery": "pull", "ttr": "3s", "retry": []string{failWait.String()}, "max_attempts": 3}},
}

// named returns the load's topics whose jobs workers take, or those whose jobs are called.
func named(pull bool) (names []string) {
	for _, t := range topics {
		if (t.fields["delivery"] == "pull") == pull {
			names = append(names, t.name)
		}
	}
	return names
}

// healthy is the behaviour of the topics' endpoints without a fault.
func healthy() map[string]harness.Behaviour {
	flaky := []harness.Behaviour{
		harness.Status(http.StatusNotFound), harness.Status(http.StatusOK), harness.Reset(),
		harness.Status(http.StatusAccepted, "Retry-After", "1"),
		harness.Status(http.StatusTooManyRequests, "Retry-After", "1"),
	}
	wicked := []harness.Behaviour{
		harness.Hang(), harness.Drip(), harness.Reset(), harness.Garbage(), harness.HalfAnswer(), harness.Status(500),
		harness.Redirect("http://169.254.169.254/"), harness.Huge(1<<40, func(int64) {}),
	}
	return map[string]harness.Behaviour{
		"steady":  harness.Status(http.StatusOK),
		"slow":    harness.Slow(300 * time.Millisecond),
		"limited": harness.Slow(20 * time.Millisecond),
		"flaky":   byID(flaky, 3),
		"mortal":  byID([]harness.Behaviour{harness.Status(http.StatusUnprocessableEntity)}, 1<<30),
		"wicked":  byID(wicked, 1),
	}
}

// byID chooses a failure by the id for the first calls; four fifths of the ids are answered at once.
func byID(ill []harness.Behaviour, calls int) harness.Behaviour {
	ok := harness.Status(http.StatusOK)
	atFirst := harness.FirstCalls(calls, func(w http.ResponseWriter, r *http.Request, c harness.Call) int {
		return ill[hash(c.ID)/5%len(ill)](w, r, c)
	}, ok)
	return func(w http.ResponseWriter, r *http.Request, c harness.Call) int {
		if strings.HasPrefix(c.ID, probePrefix) || !isIll(c.ID) {
			return ok(w, r, c)
		}
		return atFirst(w, r, c)
	}
}

// isIll reports whether an endpoint that behaves by id fails for this one.
func isIll(id string) bool { return hash(id)%5 == 0 }

func hash(id string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id)) // never fails
	return int(h.Sum32())
}

// recorder makes requests through both hosts and records their results.
type recorder struct {
	site *site
	r    *rand.Rand
	apis []*harness.API // one for each host
}

func (s *site) recorder(seed uint64, n int) recorder {
	c := recorder{site: s, r: rand.New(rand.NewPCG(seed, uint64(n)))}
	for _, h := range s.hosts {
		c.apis = append(c.apis, h.Quick())
	}
	return c
}

// do makes a request through the host in e, or any, and stores the result in e.
func (c *recorder) do(e *ledger.Event, method, path string, body any) harness.Answer {
	if e.Host == 0 {
		e.Host = 1 + c.r.IntN(len(c.apis))
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	e.At = ledger.Now()
	answer := c.apis[e.Host-1].DoHeader(ctx, method, path, body, http.Header{"If-Match": condition(e.Match)})
	e.End, e.Status = ledger.Now(), answer.Status
	e.Result = ledger.ResultOf(answer.Status, answer.Err)
	if answer.Err != nil {
		e.Error = answer.Err.Error()
	}
	return answer
}

// condition returns the values of an If-Match header, if there is one.
func condition(etag string) []string {
	if etag == "" {
		return nil
	}
	return []string{etag}
}

// record makes a request and records it.
func (c *recorder) record(e ledger.Event, method, path string, body any) ledger.Event {
	c.do(&e, method, path, body)
	c.site.rec.Add(e)
	return e
}

// push is a push of the load, and its event.
type push struct {
	ledger.Event
	fields M
}

func newPush(topic, id, body, priority string, delay time.Duration) push {
	e := ledger.Event{Kind: ledger.Push, Topic: topic, ID: id, Body: ledger.DigestJSON(body)}
	e.SetsDue, e.DelayMS = true, float64(delay.Milliseconds())
	return push{e, M{"id": id, "body": body, "delay": delay.String(), "priority": priority}}
}

// batch makes several pushes at once and records the result of each.
func (c *recorder) batch(host int, pushes []push) (events []ledger.Event) {
	var jobs []M
	for _, p := range pushes {
		p.fields["topic"] = p.Topic
		jobs = append(jobs, p.fields)
	}
	all := ledger.Event{Host: host}
	answer := c.do(&all, http.MethodPost, "/v1/jobs", M{"jobs": jobs})
	results := resultsOf(answer, len(jobs))
	for n, p := range pushes {
		e := p.Event
		e.At, e.End, e.Host, e.Status, e.Error, e.Result = all.At, all.End, all.Host, all.Status, all.Error, all.Result
		if results != nil && results[n].Error != nil {
			e.Status = results[n].Error.Status
			e.Result = ledger.ResultOf(e.Status, nil)
		}
		if results != nil && results[n].State == "spooled" {
			e.Status = http.StatusAccepted
		}
		c.site.rec.Add(e)
		events = append(events, e)
	}
	return events
}

// resultsOf returns the results in an answer; nil if it does not have n of them.
func resultsOf(answer harness.Answer, n int) []harness.Result {
	var body struct {
		Results []harness.Result `json:"results"`
	}
	if answer.Status != http.StatusOK || answer.JSON(&body) != nil || len(body.Results) != n {
		return nil
	}
	return body.Results
}

// pusher makes one request at a time, and only for its own jobs, so that the order of the events of a job is known.
type pusher struct {
	recorder
	n     int
	count int
	jobs  []job // that may still be waiting

	groups []group     // that were not cancelled, the oldest first
	mortal []mortalJob // that become dead, the oldest first
	passed []string    // ids of jobs in the topic that is dropped
}

// job is a job that this pusher has pushed.
type job struct {
	topic, id string
	etags     []string // that it has or had
}

func (j job) path() string { return harness.JobPath(j.topic, j.id) }

func (s *site) pusher(seed uint64, n int) *pusher {
	return &pusher{recorder: s.recorder(seed, n+1), n: n}
}

// request makes one of the requests of the load.
func (p *pusher) request(context.Context) error {
	if p.mix() {
		return nil
	}
	switch dice := p.r.Float64(); {
	case dice < 0.06:
		p.pushSome()
	case dice < 0.14:
		p.onWaiting(func(j job) {
			p.record(ledger.Event{Kind: ledger.Delete, Topic: j.topic, ID: j.id}, http.MethodDelete, j.path(), nil)
		})
	case dice < 0.22:
		p.onWaiting(p.change)
	case dice < 0.26:
		p.onWaiting(func(j job) {
			e := ledger.Event{Kind: ledger.Run, Topic: j.topic, ID: j.id, SetsDue: true}
			p.record(e, http.MethodPost, j.path()+"/run", nil)
		})
	default:
		p.push(p.newJob())
	}
	return nil
}

func (p *pusher) newJob() push {
	p.count++
	id := fmt.Sprintf("%d-%d", p.n, p.count)
	return newPush(p.topic(), id, p.body(id), []string{"high", "normal", "low"}[p.r.IntN(3)], p.delay())
}

func (p *pusher) topic() string {
	var names []string
	for _, t := range topics {
		names = append(names, slices.Repeat([]string{t.name}, t.share)...)
	}
	return names[p.r.IntN(len(names))]
}

// delay is none, a short one, or one long enough for faults to happen; in a long run also longer than the minute in
// which jobs wait in pages.
func (p *pusher) delay() time.Duration {
	limit := p.site.longest
	switch dice := p.r.IntN(10); {
	case dice < 2:
		return 0
	case dice < 6:
		limit = 2 * time.Second
	}
	return time.Duration(p.r.Int64N(limit.Milliseconds()+1)) * time.Millisecond
}

func (p *pusher) body(id string) string {
	size := 20
	switch dice := p.r.IntN(100); {
	case dice < 1:
		size = 50_000
	case dice < 10:
		size = 3_000 // has a key of its own
	}
	return fmt.Sprintf("%s of %s %d", strings.Repeat("x", size), id, p.r.Uint32())
}

func (p *pusher) push(job push) {
	p.keep(p.record(job.Event, http.MethodPost, "/v1/topics/"+job.Topic+"/jobs", job.fields))
}

func (p *pusher) pushSome() {
	var pushes []push
	for range 2 + p.r.IntN(6) {
		pushes = append(pushes, p.newJob())
	}
	for _, e := range p.batch(0, pushes) {
		p.keep(e)
	}
}

// keep keeps a job for later operations.
func (p *pusher) keep(e ledger.Event) {
	if e.Result == ledger.Acknowledged && e.DelayMS > 500 {
		p.jobs = append(p.jobs, job{topic: e.Topic, id: e.ID})
	}
	if len(p.jobs) > 40 {
		p.jobs = p.jobs[20:]
	}
	switch e.Result {
	case ledger.Acknowledged:
		p.remember(e.Topic, e.ID)
	case ledger.Unknown: // it may be in two shards, and dead in one of them
		p.mortal = slices.DeleteFunc(p.mortal, func(m mortalJob) bool { return m.id == e.ID })
	}
}

// onWaiting does something with one of the jobs that may still be delayed or ready, and forgets it.
func (p *pusher) onWaiting(do func(job)) {
	if len(p.jobs) == 0 {
		return
	}
	n := p.r.IntN(len(p.jobs))
	j := p.jobs[n]
	p.jobs = slices.Delete(p.jobs, n, n+1)
	do(j)
}

func (p *pusher) change(j job) {
	e, fields := ledger.Event{Kind: ledger.Change, Topic: j.topic, ID: j.id}, M{}
	if p.r.IntN(3) > 0 {
		delay := p.delay()
		e.SetsDue, e.DelayMS = true, float64(delay.Milliseconds())
		fields["delay"] = delay.String()
	}
	if !e.SetsDue || p.r.IntN(2) == 0 {
		body := p.body(j.id)
		e.Body = ledger.DigestJSON(body)
		fields["body"] = body
	}
	if len(j.etags) > 0 && p.r.IntN(2) == 0 { // an old one must be refused
		e.Match = j.etags[p.r.IntN(len(j.etags))]
	}
	answer := p.do(&e, http.MethodPatch, j.path(), fields)
	if e.Result == ledger.Acknowledged {
		e.ETag = answer.Header.Get("ETag")
		j.etags = append(j.etags, e.ETag)
	}
	p.site.rec.Add(e)
	if e.Result == ledger.Acknowledged {
		p.jobs = append(p.jobs, j) // it may be changed again, or deleted
	}
}
