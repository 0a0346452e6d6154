package beanstalk

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/gateway/importer"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

func importFlags(f *pflag.FlagSet) importer.Open {
	addr := f.String("addr", "", "`HOST:PORT` of the beanstalkd")
	return func(ctx context.Context, _ func(string) string) (importer.Source, func(), error) {
		if *addr == "" {
			return nil, nil, importer.FlagErrorf("--addr is required")
		}
		s := &source{addr: *addr}
		if err := s.open(ctx); err != nil {
			return nil, nil, fmt.Errorf("--addr %q: %w", *addr, err)
		}
		return s, s.close, nil
	}
}

// source is a beanstalkd server, accessed through its protocol. A claim is a job that is delayed for 126 years, so that
// no consumer sees it, and recorded on a list. A list is itself a job, in a separate tube, and is written first.
//
//	reserve ──▶ list ──▶ release with the long delay ──▶ push ──▶ delete ──▶ delete the list
//
// If an import is killed, the jobs it has reserved become ready again. A delayed job is reserved by its id, which
// requires beanstalkd 1.12; earlier versions keep delayed jobs until they are due.
type source struct {
	addr    string
	ids     span                                                 // of newly claimed jobs
	more    func(ctx context.Context, last uint64) (span, error) // allocates ids
	c       *oldConn
	watched map[string]bool
	lists   map[uint64]int // number of claims on each list
	window  int            // how many ids to check for delayed jobs
	old     bool           // the server has no reserve-job
}

const (
	listTube  = "wakecall-import"
	hideFor   = 4_000_000_000 // s
	claimStep = 200           // jobs per list; a list must fit into a job
)

// claim is a job on a list.
type claim struct {
	ID       uint64 `json:"id"`
	Tube     string `json:"tube"`
	Priority uint32 `json:"pri"`
	TTR      uint64 `json:"ttr"`
	Due      int64  `json:"due,omitempty"` // Unix ms; 0: the job is ready
	Offset   uint64 `json:"offset,omitempty"`
}

// claimKey identifies a claim by its list and job id.
type claimKey struct{ list, id uint64 }

// open connects.
func (s *source) open(ctx context.Context) (err error) {
	c, err := connect(ctx, s.addr)
	if err != nil {
		return err
	}
	s.c = c
	s.watched, s.lists = map[string]bool{defaultTube: true}, map[uint64]int{}
	_, err = s.c.one("use "+listTube, "USING")
	return err
}

// close disconnects. Reserved jobs become ready again.
func (s *source) close() { _ = s.c.c.Close() }

// Lock implements importer.Source. Every import uses the tube of lists, so the number of its users, which beanstalkd
// reports, shows whether another import runs. It connects anew, because a failed connection may still hold reserved
// jobs.
func (s *source) Lock(ctx context.Context) error {
	if s.c.failed {
		s.close()
		if err := s.open(ctx); err != nil {
			return err
		}
	}
	stats, err := s.c.one("stats-tube "+listTube, "OK")
	if err != nil {
		return err
	}
	if stats.number("current-using") > 1 {
		return fmt.Errorf("%s: %w", s.addr, importer.ErrLocked)
	}
	return nil
}

// Prepare implements importer.Preparer: it reserves ids for the jobs.
func (s *source) Prepare(ctx context.Context, o *importer.Options, _ *importer.Report) error {
	if o.DryRun {
		return nil
	}
	process, last, err := s.lastID()
	if err != nil {
		return err
	}
	s.more = func(ctx context.Context, last uint64) (span, error) { return spanOf(ctx, o.Registry, process, last) }
	s.ids, err = s.more(ctx, last)
	return err
}

// lastID returns the id of the last job, and identifies the process that assigns the ids: a restarted process may begin
// at 1 again.
func (s *source) lastID() (process string, last uint64, err error) {
	stats, err := s.c.one("stats", "OK")
	if err != nil {
		return "", 0, err
	}
	put, err := s.c.one("put 0 3600 60 0\r\n", "INSERTED") // delayed, so that it is not read as a list
	if err != nil {
		return "", 0, err
	}
	_, err = s.c.one("delete "+put.words[1], "DELETED")
	return s.addr + " " + stats.text("id"), put.id(), err
}

// Topics implements importer.Source.
func (s *source) Topics(context.Context) ([]registry.Topic, error) {
	return []registry.Topic{gateway.Namespace(Namespace, title)}, nil
}

// Waiting implements importer.Source.
func (s *source) Waiting(context.Context) (int, error) {
	stats, err := s.c.ask("stats", "stats-tube "+listTube)
	if err != nil {
		return 0, err
	}
	waiting := func(r *reply) int { return int(r.number("current-jobs-ready") + r.number("current-jobs-delayed")) }
	return waiting(&stats[0]) - waiting(&stats[1]), nil // without the lists
}

// Dead implements importer.DeadCounter: it counts buried jobs.
func (s *source) Dead(context.Context) (int, error) {
	stats, err := s.c.one("stats", "OK")
	return int(stats.number("current-jobs-buried")), err
}

// tubes watches all tubes except the import's own, and returns them.
func (s *source) tubes() (tubes []string, err error) {
	all, err := s.c.one("list-tubes", "OK")
	if err != nil {
		return nil, err
	}
	var watch []string
	for _, tube := range all.list() {
		if tube == listTube {
			continue
		}
		if tubes = append(tubes, tube); !s.watched[tube] {
			watch = append(watch, "watch "+tube)
			s.watched[tube] = true
		}
	}
	_, err = s.c.ask(watch...)
	return tubes, err
}

// Claim implements importer.Source.
func (s *source) Claim(ctx context.Context, n int) ([]importer.Job, error) {
	n = min(n, claimStep)
	tubes, err := s.tubes()
	if err != nil {
		return nil, err
	}
	jobs, err := s.claimReady(ctx, n)
	for _, tube := range tubes {
		for more := true; more && len(jobs) == 0 && err == nil && !s.old; {
			jobs, more, err = s.claimDelayed(ctx, tube, n)
		}
	}
	return jobs, err
}

// newClaim returns a claim of the job with an id. It allocates further ids if the process has used up those it had.
func (s *source) newClaim(ctx context.Context, id uint64) (_ claim, err error) {
	if id > s.ids.Last {
		s.ids, err = s.more(ctx, id)
	}
	return claim{ID: id, Offset: s.ids.Offset}, err
}

// learn fills in a claim from a job's statistics.
func (c *claim) learn(stats *reply) {
	c.Tube, c.Priority, c.TTR = stats.text("tube"), uint32(stats.number("pri")), stats.number("ttr")
}

// claimReady claims ready jobs from all tubes that are not paused.
func (s *source) claimReady(ctx context.Context, n int) ([]importer.Job, error) {
	replies, err := s.c.ask(slices.Repeat([]string{"reserve-with-timeout 0"}, n)...)
	if err != nil {
		return nil, err
	}
	var list []claim
	var bodies [][]byte
	var asked []string
	for _, r := range replies {
		if !r.is("RESERVED") {
			continue
		}
		c, err := s.newClaim(ctx, r.id())
		if err != nil {
			return nil, err
		}
		list, bodies, asked = append(list, c), append(bodies, r.body), append(asked, "stats-job "+r.words[1])
	}
	stats, err := s.c.ask(asked...)
	if err != nil {
		return nil, err
	}
	hide := make([]string, len(list))
	for i := range list {
		list[i].learn(&stats[i])
		hide[i] = list[i].hide()
	}
	number, replies, err := s.listed(list, hide)
	if err != nil {
		return nil, err
	}
	return s.claimed(number, list, bodies, replies)
}

// claimDelayed claims delayed jobs. It checks the ids from that of the tube's next delayed job on, whatever tubes they
// are in. Each job is reserved and released in one write, so that it does not become ready if the import is killed.
// more means that the tube may have further jobs.
func (s *source) claimDelayed(
	ctx context.Context, tube string, n int,
) (jobs []importer.Job, more bool, err error) {
	next, err := s.c.ask("use "+tube, "peek-delayed", "use "+listTube)
	if err != nil || !next[1].is("FOUND") {
		return nil, false, err
	}
	asked := make([]string, min(max(s.window, 1), n))
	for i := range asked {
		asked[i] = fmt.Sprintf("stats-job %d", next[1].id()+uint64(i))
	}
	stats, err := s.c.ask(asked...)
	if err != nil {
		return nil, false, err
	}
	var list []claim
	var hide []string
	now := time.Now()
	for i := range stats {
		stat := &stats[i]
		if stat.text("state") != "delayed" || stat.number("delay") == hideFor ||
			stat.text("tube") == listTube {
			continue
		}
		c, err := s.newClaim(ctx, next[1].id()+uint64(i))
		if err != nil {
			return nil, false, err
		}
		c.learn(stat)
		// time-left is rounded down
		c.Due = now.Add(time.Duration(stat.number("time-left")+1) * time.Second).UnixMilli()
		list, hide = append(list, c), append(hide, fmt.Sprintf("reserve-job %d\r\n%s", c.ID, c.hide()))
	}
	if s.window = len(asked) * 2; len(list)*2 < len(asked) {
		s.window = len(asked) / 2
	}
	number, replies, err := s.listed(list, hide)
	if err != nil || len(list) == 0 {
		return nil, false, err
	}
	var bodies [][]byte
	var released []reply
	for i := 0; i < len(replies); i += 2 {
		s.old = s.old || replies[i].is("UNKNOWN_COMMAND")
		bodies, released = append(bodies, replies[i].body), append(released, replies[i+1])
	}
	jobs, err = s.claimed(number, list, bodies, released)
	return jobs, true, err
}

// hide returns the command that turns a reserved job into a claim.
func (c *claim) hide() string {
	return fmt.Sprintf("release %d %d %d", c.ID, c.Priority, uint32(hideFor))
}

// listed stores a list and then runs the commands that create its claims.
func (s *source) listed(list []claim, hide []string) (number uint64, replies []reply, err error) {
	if len(list) == 0 {
		return 0, nil, nil
	}
	text, err := json.Marshal(list)
	if err != nil {
		return 0, nil, err
	}
	put, err := s.c.one(fmt.Sprintf("put 0 0 60 %d\r\n%s", len(text), text), "INSERTED")
	if err != nil {
		return 0, nil, err
	}
	replies, err = s.c.ask(strings.Split(strings.Join(hide, "\r\n"), "\r\n")...)
	return put.id(), replies, err
}

// claimed returns the jobs of a list that became claims. The others were no longer delayed, or their ttr had expired.
func (s *source) claimed(
	number uint64, list []claim, bodies [][]byte, replies []reply,
) (jobs []importer.Job, err error) {
	if len(list) == 0 {
		return nil, nil
	}
	for i, r := range replies {
		if r.is("RELEASED") {
			jobs = append(jobs, s.job(number, list[i], bodies[i]))
		}
	}
	s.lists[number] = len(jobs)
	return jobs, s.forget(number)
}

func (s *source) job(list uint64, c claim, body []byte) importer.Job {
	p := store.Push{
		Topic: topicOf(c.Tube), ID: strconv.FormatUint(c.Offset+c.ID, 10), Body: body,
		ContentType: store.TypeOf(body), Priority: levelOf(c.Priority), Order: &c.Priority,
		TTR: min(time.Duration(c.TTR)*time.Second, registry.MaxPullTTR),
		Via: fmt.Sprintf("import beanstalk %s %d", s.addr, list),
	}
	if c.Due > 0 { // by this host's clock, which may differ from that of Redis
		p.Delay = max(0, time.Until(time.UnixMilli(c.Due)))
	}
	return importer.Job{Key: claimKey{list, c.ID}, Push: p}
}

// Left implements importer.Source.
func (s *source) Left(context.Context) (jobs []importer.Job, err error) {
	defer func() { s.c.failed = s.c.failed || err != nil }() // lists may be reserved
	only := []string{"watch " + listTube}
	for tube := range s.watched {
		only = append(only, "ignore "+tube)
	}
	if _, err := s.c.ask(only...); err != nil {
		return nil, err
	}
	var held []string // kept until all of them have been read
	for {
		list, err := s.c.ask("reserve-with-timeout 0")
		if err != nil {
			return nil, err
		}
		if !list[0].is("RESERVED") {
			break
		}
		some, err := s.leftOf(&list[0])
		if err != nil {
			return nil, err
		}
		if jobs = append(jobs, some...); len(some) > 0 {
			held = append(held, fmt.Sprintf("release %d 0 0", list[0].id()))
		}
	}
	_, err = s.c.ask(append(held, "watch "+defaultTube, "ignore "+listTube)...)
	s.watched = map[string]bool{defaultTube: true}
	return jobs, err
}

// leftOf returns the jobs of a list that are still claims.
func (s *source) leftOf(list *reply) (jobs []importer.Job, err error) {
	var claims []claim
	if err := json.Unmarshal(list.body, &claims); err != nil {
		return nil, fmt.Errorf("job %d in tube %s is not from an import: %w", list.id(), listTube, err)
	}
	var requests []string
	for _, c := range claims {
		id := strconv.FormatUint(c.ID, 10)
		requests = append(requests, "stats-job "+id, "peek "+id)
	}
	replies, err := s.c.ask(requests...)
	if err != nil {
		return nil, err
	}
	for i, c := range claims {
		if stats, job := &replies[2*i], &replies[2*i+1]; stats.number("delay") == hideFor && job.is("FOUND") {
			jobs = append(jobs, s.job(list.id(), c, job.body))
		}
	}
	s.lists[list.id()] = len(jobs)
	return jobs, s.forget(list.id())
}

// Drop implements importer.Source. All jobs belong to one list.
func (s *source) Drop(_ context.Context, jobs []importer.Job) error {
	if len(jobs) == 0 {
		return nil
	}
	requests := make([]string, len(jobs))
	for i, job := range jobs {
		requests[i] = fmt.Sprintf("delete %d", job.Key.(claimKey).id)
	}
	if _, err := s.c.ask(requests...); err != nil {
		return err
	}
	list := jobs[0].Key.(claimKey).list
	s.lists[list] -= len(jobs)
	return s.forget(list)
}

// forget deletes a list without claims.
func (s *source) forget(list uint64) error {
	if s.lists[list] > 0 {
		return nil
	}
	delete(s.lists, list)
	_, err := s.c.one(fmt.Sprintf("delete %d", list), "DELETED")
	return err
}
