package chaos

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"
)

// mixed lists the further operations of the load: replace, redrive, delete (several dead jobs at once), and drop (a
// topic with its jobs).
var mixed = strings.Split(cmp.Or(os.Getenv("CHAOS_MIXED"), "replace,redrive,delete,drop"), ",")

func mixes(operation string) bool { return slices.Contains(mixed, operation) }

// deadAfter is when a job of the topic mortal has used its attempts, counted from its due time, if no fault delays it.
const deadAfter = 4 * time.Second

// mix sometimes does one of the mixed operations, and reports whether it did.
func (p *pusher) mix() bool {
	switch dice := p.r.Float64(); {
	case dice < 0.06 && mixes("replace"):
		p.replace()
	case dice >= 0.06 && dice < 0.10 && mixes("redrive"):
		p.redrive()
	case dice >= 0.10 && dice < 0.14 && mixes("delete"):
		p.deleteDead()
	default:
		return false
	}
	return true
}

// replace pushes a job that may still be waiting again, with a new body and due time.
func (p *pusher) replace() {
	j, ok := p.pick()
	if !ok {
		return
	}
	e, fields := p.newJob()
	e.Topic, e.ID, fields["id"], fields["on_duplicate"] = j.topic, j.id, j.id, "replace"
	delete(fields, "topic")
	answer := p.do(&e, http.MethodPost, "/v1/topics/"+j.topic+"/jobs", fields)
	p.booked(e, answer)
}

// redrive makes some jobs ready again that should be dead.
func (p *pusher) redrive() {
	p.onDead(event{Kind: evRedrive, SetsDue: true}, http.MethodPost, "/v1/topics/mortal/dead/retry")
}

// deleteDead deletes some jobs that should be dead.
func (p *pusher) deleteDead() {
	p.onDead(event{Kind: evDelete}, http.MethodDelete, "/v1/topics/mortal/dead")
}

// onDead makes one request for up to five mortal jobs. The result for each job is known only if all of them were dead.
func (p *pusher) onDead(e event, method, path string) {
	ids := p.takeMortal(5)
	if len(ids) == 0 {
		return
	}
	answer := p.do(&e, method, path, M{"ids": ids})
	var body struct{ Count int }
	if e.Result == acknowledged && (answer.JSON(&body) != nil || body.Count != len(ids)) {
		e.Result = unknown
	}
	for _, id := range ids {
		e.Topic, e.ID = "mortal", id
		p.site.rec.add(e)
	}
	if e.Kind == evRedrive {
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

func (p *pusher) takeMortal(most int) (ids []string) {
	for len(ids) < most && len(p.mortal) > 0 && time.Now().After(p.mortal[0].dead) {
		ids = append(ids, p.mortal[0].id)
		p.mortal = p.mortal[1:]
	}
	return ids
}

// passing is a topic that is registered, pushed to, and dropped with its jobs, repeatedly. It has its own pusher, so
// that the order of the events of its jobs is known.
const passing = "passing"

func (p *pusher) passAndDrop(ctx context.Context) {
	for ctx.Err() == nil {
		e := event{}
		p.do(
			&e,
			http.MethodPut,
			"/v1/topics/"+passing,
			M{"callback_url": p.site.endpoint.url(passing), "ttr": "3s", "max_attempts": 1000},
		)
		if e.Result == acknowledged {
			p.pushPassing(ctx)
		}
		p.drop()
	}
}

func (p *pusher) pushPassing(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for range 10 + p.r.IntN(40) {
		e, fields := p.newJob()
		e.Topic = passing
		delete(fields, "topic")
		p.do(&e, http.MethodPost, "/v1/topics/"+passing+"/jobs", fields)
		p.site.rec.add(e)
		if e.Result == acknowledged { // other pushes may reach a suspended server after the topic was dropped
			p.passed = append(p.passed, e.ID)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// drop deletes the topic with its jobs: all that were pushed since a drop was last acknowledged.
func (p *pusher) drop() bool {
	e := event{Kind: evDelete}
	p.do(&e, http.MethodDelete, "/v1/topics/"+passing+"?drop=true", nil)
	if e.Result == refused { // the topic does not exist, which says nothing about its jobs
		e.Result = unknown
	}
	for _, id := range p.passed {
		e.Topic, e.ID = passing, id
		p.site.rec.add(e)
	}
	if e.Result == acknowledged {
		p.passed = nil
	}
	return e.Result == acknowledged
}

// dropRest drops the jobs that the load left in the topic, when all faults are over.
func (p *pusher) dropRest(ctx context.Context) error {
	for len(p.passed) > 0 && !p.drop() {
		e := event{}
		p.do(&e, http.MethodPut, "/v1/topics/"+passing, M{"callback_url": p.site.endpoint.url(passing)})
		select {
		case <-ctx.Done():
			return fmt.Errorf("the topic %s cannot be dropped: %w", passing, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}

// encode returns the digest of the body of a push.
func encode(body string) string {
	encoded, _ := json.Marshal(body) // a JSON string
	return digest(encoded)
}

// isIll reports whether an endpoint that behaves by id fails for this one.
func isIll(id string) bool { return hash(id)%5 == 0 }
