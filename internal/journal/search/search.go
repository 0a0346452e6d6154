// Package search finds what the journals of all hosts know about the jobs with an id.
//
// A journal is on the disk of its host. So the host that was asked reads its own, and asks the other hosts' servers for
// theirs: GET /v1/search with the query self=HOST; requests and answers are signed with the key that all hosts share
// (see host.go). Each journal is read by a process of its own, one at a time on a host (see process.go). Both answer
// line by line while they search. A line that cancels a group names no job: the groups of jobs without an end are
// searched for afterwards. A host that cannot be asked is named in the report with the reason.
package search

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/registry/seal"
)

// Limits of one search.
const (
	Limit      = 10 * time.Minute
	maxWaiting = 64       // in one process
	maxEvents  = 1000     // on each host
	maxGroups  = 5        // of the jobs found, that are searched for
	maxBodies  = 1 << 20  // bytes on each host; later ones are left out
	maxAnswer  = 16 << 20 // bytes of a host's answer
	tellEvery  = 500 * time.Millisecond
	dialLimit  = 2 * time.Second
)

// Query selects jobs.
type Query struct {
	ID     string
	Topic  string   // empty: all topics
	Within []string // patterns of the topics that may be read; nil: all
	Group  string   // instead of an ID: what cancelled this group
}

func (q *Query) selects(topic string) bool {
	return (q.Topic == "" || topic == q.Topic) && (q.Within == nil ||
		slices.ContainsFunc(q.Within, func(pattern string) bool { return registry.MatchesPattern(pattern, topic) }))
}

// Event is what one line of a journal says about a job.
type Event struct {
	At        time.Time `json:"at"`
	Host      string    `json:"host"`
	What      string    `json:"what"` // the operation of a request, or the outcome of an attempt
	Topic     string    `json:"topic"`
	ID        string    `json:"id,omitempty"`           // empty: all jobs of the topic, or of Group in Topics
	Group     string    `json:"group,omitempty"`        // of a job, or cancelled
	Topics    string    `json:"topics,omitempty"`       // of a cancelled group: patterns, separated by spaces
	CreatedAt time.Time `json:"created_at,omitzero"`    // identifies the job
	DueAt     time.Time `json:"due_at,omitzero"`        // of a request that has the whole job
	Via       string    `json:"via,omitempty"`          // the protocol of a request; empty: the API
	By        string    `json:"by,omitempty"`           // who changed the job
	N         int       `json:"n,omitempty"`            // number of the attempt; 0: a request
	StartedAt time.Time `json:"started_at,omitzero"`    // of an attempt
	TookMS    float64   `json:"took_ms,omitempty"`      // of an attempt
	Status    int       `json:"status,omitempty"`       // that the endpoint answered
	Error     string    `json:"error,omitempty"`        // of an attempt
	Reason    string    `json:"reason,omitempty"`       // of a death
	Result    string    `json:"result,omitempty"`       // of a worker
	Type      string    `json:"content_type,omitempty"` // of the body
	Body      []byte    `json:"body_base64,omitempty"`
	Attempt   bool      `json:"attempt,omitempty"` // it is an attempt, or the end of a job without one
}

// Job is all that the journals know about one job.
type Job struct {
	Topic     string    `json:"topic"`
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"created_at,omitzero"`
	// Ended is done, dead, expired, delete, drop, clear or cancel; empty: it has not, as far as is known.
	Ended  string `json:"ended,omitempty"`
	group  string
	Events []Event `json:"events"` // oldest first
}

// Host is how far the search on one host has come.
type Host struct {
	Name string `json:"name"`
	journal.Progress
	Done  bool   `json:"done"`
	Error string `json:"error,omitempty"` // why its journal was not searched, or not all of it
}

// Report is what is known so far.
type Report struct {
	Hosts []Host `json:"hosts"`
	Jobs  []Job  `json:"jobs"`          // newest first
	Cut   bool   `json:"cut,omitempty"` // there are more events than a search returns
	Done  bool   `json:"done"`
}

// Peer is another host.
type Peer struct {
	Name  string
	Addrs []netip.AddrPort // of its server, as far as other hosts reach it
}

// Searcher searches the journals of all hosts.
type Searcher struct {
	Dir   string // this host's journal
	Host  string // this host's name
	Peers func(context.Context) []Peer
	Key   seal.Key // that all hosts share; nil: none, so other hosts cannot be asked
	TLS   bool     // the servers speak HTTPS
	Web   *http.Client

	waiting atomic.Int32 // searches of this host's journal that are under way or wait for their turn
}

func eventOf(f journal.Found) Event {
	if a := f.Attempt; a != nil {
		return Event{
			At: a.TS, What: string(a.Outcome), Topic: a.Topic, ID: a.ID, CreatedAt: a.CreatedAt, N: a.N,
			StartedAt: a.StartedAt, TookMS: float64(a.Took) / float64(time.Millisecond), Status: a.Status,
			Error: a.Error, Reason: a.Reason, Result: a.Result, Attempt: true,
		}
	}
	r := f.Request
	return Event{
		At: r.TS, What: string(r.Op), Topic: r.Topic, ID: r.ID, CreatedAt: r.CreatedAt, DueAt: r.DueAt, Via: r.Via,
		By: r.By, Type: r.ContentType, Body: r.Body, Group: r.Group, Topics: r.Topics,
	}
}

// All searches the journals of all hosts at once. It calls tell with what is known so far, twice a second, and returns
// all of it when every host has answered, ctx is done, or time is up.
func (s *Searcher) All(ctx context.Context, q Query, tell func(Report)) Report {
	ctx, cancel := context.WithTimeout(ctx, Limit)
	defer cancel()
	r := &run{}
	peers := s.Peers(ctx)
	s.all(ctx, q, peers, r, tell)
	for _, group := range r.openGroups() {
		s.all(ctx, Query{Group: group}, peers, r, tell)
	}
	report := r.report()
	report.Done = true
	return report
}

func (s *Searcher) all(ctx context.Context, q Query, peers []Peer, r *run, tell func(Report)) {
	var wg sync.WaitGroup
	own := r.host(s.Host)
	wg.Go(func() { r.end(own, s.own(ctx, q, r.lines(own))) })
	for _, p := range peers {
		at := r.host(p.Name)
		wg.Go(func() { r.end(at, s.ask(ctx, p, q, r.lines(at))) })
	}
	ended := make(chan struct{})
	go func() {
		wg.Wait()
		close(ended)
	}()
	for t := time.NewTicker(tellEvery); ; {
		select {
		case <-ended:
			t.Stop()
			return
		case <-t.C:
			tell(r.report())
		}
	}
}

// run is a search under way.
type run struct {
	mu     sync.Mutex
	hosts  []Host
	events []Event
	cut    bool
}

func (r *run) host(name string) (at int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at = slices.IndexFunc(r.hosts, func(h Host) bool { return h.Name == name }); at >= 0 {
		r.hosts[at].Done = false
		return at
	}
	r.hosts = append(r.hosts, Host{Name: name})
	return len(r.hosts) - 1
}

// openGroups returns the groups of the jobs that have not ended, as far as is known.
func (r *run) openGroups() (groups []string) {
	for _, j := range r.report().Jobs {
		if j.Ended == "" && j.group != "" && !slices.Contains(groups, j.group) && len(groups) < maxGroups {
			groups = append(groups, j.group)
		}
	}
	return groups
}

// lines takes the lines about a host.
func (r *run) lines(at int) func(line) {
	return func(l line) {
		r.mu.Lock()
		defer r.mu.Unlock()
		host := &r.hosts[at]
		if l.Progress != nil {
			host.Progress = *l.Progress
		}
		if l.Event != nil {
			l.Event.Host = host.Name
			r.events = append(r.events, *l.Event)
		}
		r.cut = r.cut || l.Cut
	}
}

func (r *run) end(at int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hosts[at].Done = true
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		r.hosts[at].Error = "not searched to the end: time is up"
	case err != nil:
		r.hosts[at].Error = err.Error()
	}
}

func (r *run) report() Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Report{Hosts: slices.Clone(r.hosts), Jobs: jobsOf(slices.Clone(r.events)), Cut: r.cut}
}

// jobsOf sorts events by the jobs that they belong to. Jobs with one id in one topic differ by when they were created.
func jobsOf(events []Event) []Job {
	slices.SortStableFunc(events, func(a, b Event) int { return a.At.Compare(b.At) })
	type key struct {
		topic string
		at    int64
	}
	jobs := map[key]*Job{}
	for _, e := range events {
		if e.ID == "" {
			endJobs(jobsIn(jobs), e)
			continue
		}
		k := key{e.Topic, e.CreatedAt.UnixMilli()}
		if jobs[k] == nil {
			jobs[k] = &Job{Topic: e.Topic, ID: e.ID, CreatedAt: e.CreatedAt}
		}
		jobs[k].add(e)
	}
	list := []Job{}
	for j := range jobsIn(jobs) {
		list = append(list, *j)
	}
	slices.SortFunc(list, func(a, b Job) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), strings.Compare(a.Topic, b.Topic))
	})
	return list
}

func jobsIn[K comparable](jobs map[K]*Job) func(yield func(*Job) bool) {
	return func(yield func(*Job) bool) {
		for _, j := range jobs {
			if !yield(j) {
				return
			}
		}
	}
}

// endJobs ends the jobs of a topic that was cleared, or of a group that was cancelled.
func endJobs(jobs func(yield func(*Job) bool), e Event) {
	for j := range jobs {
		of := j.Topic == e.Topic
		if e.Group != "" {
			of = j.group == e.Group && slices.ContainsFunc(strings.Fields(e.Topics), func(pattern string) bool {
				return registry.MatchesPattern(pattern, j.Topic)
			})
		}
		if of && j.Ended == "" {
			one := e
			one.Topic, one.Topics = j.Topic, "" // other topics of the group are not for everybody who reads this one
			j.add(one)
		}
	}
}

func (j *Job) add(e Event) {
	j.Events = append(j.Events, e)
	j.group = cmp.Or(e.Group, j.group)
	switch e.What {
	case string(journal.Done), string(journal.Dead), string(journal.Expired), string(journal.OpDelete),
		string(journal.OpDrop), string(journal.OpClear), string(journal.OpCancel):
		j.Ended = e.What
	case string(journal.OpRedrive), string(journal.OpRun), string(journal.OpPush), string(journal.OpReplace):
		j.Ended = ""
	}
}
