package chaos

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wakecall/wakecall/test/harness"
)

// M is a JSON object.
type M = harness.M

const (
	pushers = 24 // clients at once
	// patience is the time limit of a client's request; the result of a request without an answer is unknown.
	patience = 6 * time.Second
)

// topic of the load, with its share of the pushes.
type topic struct {
	name   string
	share  int
	fields M
}

// attemptsEnough is more attempts than a job ever needs.
const attemptsEnough = 1000

var topics = []topic{
	{"steady", 4, M{"ttr": "3s", "retry": []string{"200ms", "1s"}, "max_attempts": attemptsEnough}},
	{"slow", 2, M{"ttr": "3s", "retry": []string{"200ms", "1s"}, "max_attempts": attemptsEnough}},
	{"flaky", 2, M{"ttr": "3s", "retry": []string{"200ms", "1s"}, "max_attempts": attemptsEnough}},
	{"mortal", 1, M{"ttr": "3s", "retry": []string{"200ms"}, "max_attempts": 2}}, // a fifth of its jobs become dead
	{"wicked", 1, M{"ttr": "1s", "retry": []string{"200ms", "1s"}, "max_attempts": attemptsEnough}},
	{
		"limited",
		1,
		M{"ttr": "3s", "retry": []string{"200ms", "1s"}, "max_attempts": attemptsEnough, "max_in_flight": 4,
			"rate_limit": 50},
	},
	{"pulled", 3, M{"delivery": "pull", "ttr": "3s", "retry": []string{failWait.String()}, "max_attempts": 0}},
	{"doomed", 1, M{"delivery": "pull", "ttr": "3s", "retry": []string{failWait.String()}, "max_attempts": 3}},
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
	atFirst := harness.FirstCalls(calls, func(w http.ResponseWriter, r *http.Request, c harness.Call) {
		ill[hash(c.ID)/5%len(ill)](w, r, c)
	}, ok)
	return func(w http.ResponseWriter, r *http.Request, c harness.Call) {
		if strings.HasPrefix(c.ID, probePrefix) || !isIll(c.ID) {
			ok(w, r, c)
			return
		}
		atFirst(w, r, c)
	}
}

func hash(id string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id)) // never fails
	return int(h.Sum32())
}

// load runs the pushers. Each makes one request at a time, and only for its own jobs, so that the order of the events
// of a job is known.
type load struct {
	site   *site
	cancel context.CancelFunc
	wg     sync.WaitGroup

	dropper *pusher // nil unless topics are dropped
}

func startLoad(s *site, seed uint64) *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{site: s, cancel: cancel}
	for n := range pushers {
		p := newPusher(s, seed, n)
		l.wg.Go(func() { p.run(ctx) })
	}
	if mixes("drop") {
		l.dropper = newPusher(s, seed, pushers)
		l.wg.Go(func() { l.dropper.passAndDrop(ctx) })
	}
	return l
}

func newPusher(s *site, seed uint64, n int) *pusher {
	p := &pusher{site: s, n: n, r: rand.New(rand.NewPCG(seed, uint64(n)+1))}
	for _, h := range s.hosts {
		p.api = append(p.api, h.Quick())
	}
	return p
}

// stop returns when the last request was answered or has timed out.
func (l *load) stop() {
	l.cancel()
	l.wg.Wait()
}

type pusher struct {
	site  *site
	api   []*harness.API // one for each host
	n     int
	count int
	r     *rand.Rand
	jobs  []job // that may still be waiting

	mortal []mortalJob // that become dead, the oldest first
	passed []string    // ids of jobs in the topic that is dropped
}

// job is a job that this pusher has pushed.
type job struct{ topic, id string }

func (p *pusher) run(ctx context.Context) {
	tick := time.NewTicker(time.Second * pushers / time.Duration(rate))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if p.mix() {
			continue
		}
		switch dice := p.r.Float64(); {
		case dice < 0.06:
			p.batch()
		case dice < 0.14:
			p.delete()
		case dice < 0.22:
			p.change()
		case dice < 0.26:
			p.runNow()
		default:
			p.push()
		}
	}
}

func (p *pusher) newJob() (event, M) {
	p.count++
	topic := p.topic()
	delay := p.delay()
	id := fmt.Sprintf("%d-%d", p.n, p.count)
	body := p.body(id)
	e := event{
		Kind: evPush, Topic: topic, ID: id, DelayMS: float64(delay.Milliseconds()), SetsDue: true, Body: encode(body),
	}
	return e, M{
		"topic":    topic,
		"id":       id,
		"body":     body,
		"delay":    delay.String(),
		"priority": []string{"high", "normal", "low"}[p.r.IntN(3)],
	}
}

func (p *pusher) topic() string {
	sum := 0
	for _, t := range topics {
		sum += t.share
	}
	n := p.r.IntN(sum)
	for _, t := range topics {
		if n -= t.share; n < 0 {
			return t.name
		}
	}
	panic("unreachable")
}

// delay is none, a short one, or one long enough for faults to happen; in a long run also longer than the minute in
// which jobs wait in pages.
func (p *pusher) delay() time.Duration {
	ms := func(limit time.Duration) time.Duration {
		return time.Duration(p.r.Int64N(limit.Milliseconds()+1)) * time.Millisecond
	}
	switch dice := p.r.IntN(10); {
	case dice < 2:
		return 0
	case dice < 6:
		return ms(2 * time.Second)
	}
	return ms(p.site.longest)
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

func (p *pusher) push() {
	e, fields := p.newJob()
	topic := fields["topic"].(string)
	delete(fields, "topic")
	answer := p.do(&e, http.MethodPost, "/v1/topics/"+topic+"/jobs", fields)
	p.booked(e, answer)
}

// batch pushes several jobs at once. Each has its own result.
func (p *pusher) batch() {
	var events []event
	var jobs []M
	for range 2 + p.r.IntN(6) {
		e, fields := p.newJob()
		events, jobs = append(events, e), append(jobs, fields)
	}
	all := event{}
	answer := p.do(&all, http.MethodPost, "/v1/jobs", M{"jobs": jobs})
	var body struct {
		Results []struct {
			Error *harness.Problem `json:"error"`
			State string           `json:"state"`
		} `json:"results"`
	}
	told := answer.Status == http.StatusOK && answer.JSON(&body) == nil && len(body.Results) == len(jobs)
	for n, e := range events {
		e.At, e.End, e.Host, e.Status, e.Error = all.At, all.End, all.Host, all.Status, all.Error
		e.Result = all.Result
		if told && body.Results[n].Error != nil {
			e.Status = body.Results[n].Error.Status
			e.Result = resultOf(e.Status, nil)
		}
		if told && body.Results[n].State == "spooled" {
			e.Status = http.StatusAccepted
		}
		p.booked(e, answer)
	}
}

// booked records a push, and keeps the job for later operations.
func (p *pusher) booked(e event, answer harness.Answer) {
	p.site.rec.add(e)
	if e.Result == acknowledged && e.DelayMS > 500 {
		p.jobs = append(p.jobs, job{e.Topic, e.ID})
	}
	if len(p.jobs) > 40 {
		p.jobs = p.jobs[20:]
	}
	switch e.Result {
	case acknowledged:
		p.remember(e.Topic, e.ID)
	case unknown: // it may be in two shards, and dead in one of them
		p.mortal = slices.DeleteFunc(p.mortal, func(m mortalJob) bool { return m.id == e.ID })
	}
}

// pick removes a job from those that may still be delayed or ready, and returns it.
func (p *pusher) pick() (j job, ok bool) {
	if len(p.jobs) == 0 {
		return job{}, false
	}
	n := p.r.IntN(len(p.jobs))
	j = p.jobs[n]
	p.jobs = append(p.jobs[:n], p.jobs[n+1:]...)
	return j, true
}

func (p *pusher) delete() {
	j, ok := p.pick()
	if !ok {
		return
	}
	e := event{Kind: evDelete, Topic: j.topic, ID: j.id}
	p.do(&e, http.MethodDelete, harness.JobPath(j.topic, j.id), nil)
	p.site.rec.add(e)
}

func (p *pusher) change() {
	j, ok := p.pick()
	if !ok {
		return
	}
	e, fields := event{Kind: evChange, Topic: j.topic, ID: j.id}, M{}
	if p.r.IntN(3) > 0 {
		delay := p.delay()
		e.SetsDue, e.DelayMS = true, float64(delay.Milliseconds())
		fields["delay"] = delay.String()
	}
	if !e.SetsDue || p.r.IntN(2) == 0 {
		body := p.body(j.id)
		e.Body = encode(body)
		fields["body"] = body
	}
	p.do(&e, http.MethodPatch, harness.JobPath(j.topic, j.id), fields)
	p.site.rec.add(e)
	if e.Result == acknowledged {
		p.jobs = append(p.jobs, j) // it may be changed again, or deleted
	}
}

func (p *pusher) runNow() {
	j, ok := p.pick()
	if !ok {
		return
	}
	e := event{Kind: evRun, Topic: j.topic, ID: j.id, SetsDue: true}
	p.do(&e, http.MethodPost, harness.JobPath(j.topic, j.id)+"/run", nil)
	p.site.rec.add(e)
}

// do makes a request at one of the hosts and records the result in e.
func (p *pusher) do(e *event, method, path string, body any) harness.Answer {
	e.Host = 1 + p.r.IntN(len(p.api))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	e.At = now()
	answer := p.api[e.Host-1].Do(ctx, method, path, body)
	e.End, e.Status = now(), answer.Status
	e.Result = resultOf(answer.Status, answer.Err)
	if answer.Err != nil {
		e.Error = answer.Err.Error()
	}
	return answer
}

func resultOf(status int, err error) string {
	switch {
	case err != nil || status >= 500: // a 5xx does not say whether it took effect
		return unknown
	case status >= 400:
		return refused
	}
	return acknowledged
}
