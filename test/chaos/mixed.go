package chaos

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/wakecall/wakecall/test/harness/ledger"
	"github.com/wakecall/wakecall/test/wait"
)

// deadAfter is when a job of the topic mortal has used its attempts, counted from its due time, if no fault delays it.
const deadAfter = 4 * time.Second

func mixes(operation string) bool { return slices.Contains(mixed, operation) }

// mix sometimes does one of the mixed operations, and reports whether it did.
func (p *pusher) mix() bool {
	switch dice := p.r.Float64(); {
	case dice < 0.06 && mixes("replace"):
		p.onWaiting(p.replace)
	case dice >= 0.06 && dice < 0.10 && mixes("redrive"):
		p.onDead(ledger.Event{Kind: ledger.Redrive, SetsDue: true}, http.MethodPost, "/v1/topics/mortal/dead/retry")
	case dice >= 0.10 && dice < 0.14 && mixes("delete"):
		p.onDead(ledger.Event{Kind: ledger.Delete}, http.MethodDelete, "/v1/topics/mortal/dead")
	case dice >= 0.14 && dice < 0.17 && mixes("group"):
		p.pushGroup()
	case dice >= 0.17 && dice < 0.20 && mixes("group"):
		p.cancelGroup()
	default:
		return false
	}
	return true
}

// group is one that this pusher has pushed jobs into.
type group struct {
	name string
	jobs []ledger.Event
}

// pushGroup pushes jobs of several topics into a new group.
func (p *pusher) pushGroup() {
	g := group{name: fmt.Sprintf("group %d-%d", p.n, p.count)}
	var pushes []push
	for range 2 + p.r.IntN(6) {
		job := p.newJob()
		job.fields["group"] = g.name
		pushes = append(pushes, job)
	}
	for _, e := range p.batch(0, pushes) {
		if e.Result == ledger.Acknowledged { // other pushes may reach a suspended server later
			g.jobs = append(g.jobs, e)
		}
	}
	p.groups = append(p.groups, g)
}

// cancelGroup cancels the oldest group, and closes it for longer than any fault lasts. While some of its jobs run, or a
// shard is down, others than those may be called, too, so the result for each is not known.
func (p *pusher) cancelGroup() {
	if len(p.groups) == 0 {
		return
	}
	g := p.groups[0]
	p.groups = p.groups[1:]
	e := ledger.Event{Kind: ledger.Delete}
	answer := p.do(&e, http.MethodDelete, "/v1/groups/"+url.PathEscape(g.name)+"?close=10m", nil)
	var body struct{ Running int }
	if e.Status != http.StatusOK || answer.JSON(&body) != nil || body.Running > 0 {
		e.Result = ledger.Unknown
	}
	for _, job := range g.jobs {
		e.Topic, e.ID = job.Topic, job.ID
		p.site.rec.Add(e)
	}
}

// replace pushes a job again, with a new body and due time.
func (p *pusher) replace(j job) {
	again := p.newJob()
	again.Topic, again.ID, again.fields["id"], again.fields["on_duplicate"] = j.topic, j.id, j.id, "replace"
	p.push(again)
}

// onDead makes one request for up to five jobs that should be dead. The result is known only of one that is alone: the
// number in the answer counts a job twice that has a copy in each shard, because its push was repeated.
func (p *pusher) onDead(e ledger.Event, method, path string) {
	var ids []string
	most := 1 + 4*p.r.IntN(2)
	for len(ids) < most && len(p.mortal) > 0 && time.Now().After(p.mortal[0].dead) {
		ids, p.mortal = append(ids, p.mortal[0].id), p.mortal[1:]
	}
	if len(ids) == 0 {
		return
	}
	answer := p.do(&e, method, path, M{"ids": ids})
	var body struct{ Count int }
	if e.Result == ledger.Acknowledged && (len(ids) > 1 || answer.JSON(&body) != nil || body.Count == 0) {
		e.Result = ledger.Unknown
	}
	for _, id := range ids {
		e.Topic, e.ID = "mortal", id
		p.site.rec.Add(e)
	}
	if e.Kind == ledger.Redrive {
		p.remember("mortal", ids...)
	}
}

// mortalJob is a job that becomes dead, unless it is deleted first.
type mortalJob struct {
	id   string
	dead time.Time // approximately
}

// remember keeps the mortal ones among jobs that were pushed or made ready again.
func (p *pusher) remember(topic string, ids ...string) {
	for _, id := range ids {
		if topic == "mortal" && isIll(id) {
			p.mortal = append(p.mortal, mortalJob{id, time.Now().Add(deadAfter)})
		}
	}
}

// passing is a topic that is registered, pushed to, and dropped with its jobs, repeatedly. It has its own pusher, so
// that the order of the events of its jobs is known.
const passing = "passing"

func (p *pusher) passAndDrop(ctx context.Context) error {
	if p.register() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for range 10 + p.r.IntN(40) {
			p.pushPassing()
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
		}
	}
	p.drop()
	return nil
}

func (p *pusher) register() bool {
	e := ledger.Event{}
	p.do(&e, http.MethodPut, "/v1/topics/"+passing,
		M{"callback_url": p.site.endpoint.URL("/" + passing), "ttr": "3s", "max_attempts": attemptsEnough})
	return e.Result == ledger.Acknowledged
}

func (p *pusher) pushPassing() {
	job := p.newJob()
	job.Topic = passing
	e := p.record(job.Event, http.MethodPost, "/v1/topics/"+passing+"/jobs", job.fields)
	if e.Result == ledger.Acknowledged {
		p.passed = append(p.passed, e.ID) // other pushes may reach a suspended server after the topic was dropped
	}
}

// drop deletes the topic with its jobs: all that were pushed since a drop was last acknowledged.
func (p *pusher) drop() {
	e := ledger.Event{Kind: ledger.Delete}
	p.do(&e, http.MethodDelete, "/v1/topics/"+passing+"?drop=true", nil)
	if e.Result == ledger.Refused { // the topic does not exist, which says nothing about its jobs
		e.Result = ledger.Unknown
	}
	for _, id := range p.passed {
		e.Topic, e.ID = passing, id
		p.site.rec.Add(e)
	}
	if e.Result == ledger.Acknowledged {
		p.passed = nil
	}
}

// dropRest drops the jobs that the load left in the topic, when all faults are over.
func (p *pusher) dropRest(ctx context.Context) error {
	return wait.Until(ctx, 100*time.Millisecond, func() error {
		if len(p.passed) == 0 {
			return nil
		}
		p.register()
		if p.drop(); len(p.passed) > 0 {
			return fmt.Errorf("the topic %s cannot be dropped", passing)
		}
		return nil
	})
}
