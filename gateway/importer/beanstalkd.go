package importer

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
)

// Beanstalkd is a beanstalkd server, accessed through its protocol. A claim is a job that is delayed for 126 years, so
// that no consumer sees it, and is recorded on a list, which is a job in a tube of its own. The list is written first.
//
//	reserve ──▶ list ──▶ release with the long delay ──▶ push ──▶ delete ──▶ delete the list
//
// If an import is killed, the jobs that it had reserved become ready again. A delayed job is reserved by its id, which
// requires beanstalkd 1.12; earlier versions keep delayed jobs until they are due.
type Beanstalkd struct {
	Addr       string
	Namespace  registry.Topic                            // has the settings of all tubes
	TopicOf    func(tube string, priority uint32) string // the gateway's topic for jobs of a tube
	PriorityOf func(priority uint32) queue.Priority      // the gateway's priority for such jobs
	// added to the ids of newly claimed jobs, because other jobs may already have these ids
	Offset uint64

	c       *beanstalkConn
	watched map[string]bool
	lists   map[uint64]int // number of claims on each list
	window  int            // how many ids to search for delayed jobs
	old     bool           // the server has no reserve-job
}

const (
	defaultTube    = "default"
	beanstalkLists = "wakecall-import"
	beanstalkHide  = 4_000_000_000 // s
	beanstalkStep  = 200           // jobs on a list, which must fit into a job
)

// beanstalkClaim is a job on a list.
type beanstalkClaim struct {
	ID       uint64 `json:"id"`
	Tube     string `json:"tube"`
	Priority uint32 `json:"pri"`
	TTR      uint64 `json:"ttr"`
	Due      int64  `json:"due,omitempty"` // Unix ms; 0: the job is ready
	Offset   uint64 `json:"offset,omitempty"`
}

// beanstalkKey identifies a claim: its list and its id on it.
type beanstalkKey struct{ list, id uint64 }

// Open connects.
func (b *Beanstalkd) Open(ctx context.Context) (err error) {
	c, err := dialBeanstalkd(ctx, b.Addr)
	if err != nil {
		return err
	}
	b.c = c
	b.watched, b.lists = map[string]bool{defaultTube: true}, map[uint64]int{}
	_, err = b.c.one("use "+beanstalkLists, "USING")
	return err
}

// Close disconnects. Reserved jobs become ready again.
func (b *Beanstalkd) Close() { _ = b.c.c.Close() }

// Lock implements Old. Every import uses the tube of lists, and beanstalkd counts the users of a tube. A connection that
// failed may still have reserved jobs.
func (b *Beanstalkd) Lock(ctx context.Context) error {
	if b.c.failed {
		b.Close()
		if err := b.Open(ctx); err != nil {
			return err
		}
	}
	stats, err := b.c.one("stats-tube "+beanstalkLists, "OK")
	if err != nil {
		return err
	}
	if stats.number("current-using") > 1 {
		return fmt.Errorf("%s: %w", b.Addr, ErrLocked)
	}
	return nil
}

// LastID returns the id of the last job, and identifies the process that assigns the ids: a restarted process may begin
// at 1 again.
func (b *Beanstalkd) LastID() (process string, last uint64, err error) {
	stats, err := b.c.one("stats", "OK")
	if err != nil {
		return "", 0, err
	}
	put, err := b.c.one("put 0 3600 60 0\r\n", "INSERTED") // delayed, so that it is not read as a list
	if err != nil {
		return "", 0, err
	}
	_, err = b.c.one("delete "+put.words[1], "DELETED")
	return b.Addr + " " + stats.text("id"), put.id(), err
}

// Topics implements Old.
func (b *Beanstalkd) Topics(context.Context) ([]registry.Topic, error) {
	return []registry.Topic{b.Namespace}, nil
}

// Waiting implements Old. It also counts the lists.
func (b *Beanstalkd) Waiting(context.Context) (int, error) {
	stats, err := b.c.one("stats", "OK")
	return int(stats.number("current-jobs-ready") + stats.number("current-jobs-delayed")), err
}

// tubes returns and watches all tubes except the import's own.
func (b *Beanstalkd) tubes() (tubes []string, err error) {
	all, err := b.c.one("list-tubes", "OK")
	if err != nil {
		return nil, err
	}
	var watch []string
	for _, tube := range all.list() {
		if tube == beanstalkLists {
			continue
		}
		if tubes = append(tubes, tube); !b.watched[tube] {
			watch = append(watch, "watch "+tube)
			b.watched[tube] = true
		}
	}
	_, err = b.c.ask(watch...)
	return tubes, err
}

// Claim implements Old.
func (b *Beanstalkd) Claim(_ context.Context, n int) ([]Job, error) {
	n = min(n, beanstalkStep)
	tubes, err := b.tubes()
	if err != nil {
		return nil, err
	}
	jobs, err := b.claimReady(n)
	for _, tube := range tubes {
		for more := true; more && len(jobs) == 0 && err == nil && !b.old; {
			jobs, more, err = b.claimDelayed(tube, n)
		}
	}
	return jobs, err
}

// learn completes a claim from a job's statistics.
func (c *beanstalkClaim) learn(stats *beanstalkReply) {
	c.Tube, c.Priority, c.TTR = stats.text("tube"), uint32(stats.number("pri")), stats.number("ttr")
}

// claimReady claims ready jobs from all tubes that are not paused.
func (b *Beanstalkd) claimReady(n int) ([]Job, error) {
	replies, err := b.c.ask(slices.Repeat([]string{"reserve-with-timeout 0"}, n)...)
	if err != nil {
		return nil, err
	}
	var list []beanstalkClaim
	var bodies [][]byte
	var asked []string
	for _, r := range replies {
		if r.is("RESERVED") {
			list, bodies = append(list, beanstalkClaim{ID: r.id(), Offset: b.Offset}), append(bodies, r.body)
			asked = append(asked, "stats-job "+r.words[1])
		}
	}
	stats, err := b.c.ask(asked...)
	if err != nil {
		return nil, err
	}
	hide := make([]string, len(list))
	for i := range list {
		list[i].learn(&stats[i])
		hide[i] = list[i].hide()
	}
	number, replies, err := b.listed(list, hide)
	if err != nil {
		return nil, err
	}
	return b.claimed(number, list, bodies, replies)
}

// claimDelayed claims delayed jobs of any tube, whose ids follow the id of the next delayed job of a tube. A job must
// not become ready if the import is killed, so it is reserved and released at once. more: the tube may have further
// jobs.
func (b *Beanstalkd) claimDelayed(tube string, n int) (jobs []Job, more bool, err error) {
	next, err := b.c.ask("use "+tube, "peek-delayed", "use "+beanstalkLists)
	if err != nil || !next[1].is("FOUND") {
		return nil, false, err
	}
	asked := make([]string, min(max(b.window, 1), n))
	for i := range asked {
		asked[i] = fmt.Sprintf("stats-job %d", next[1].id()+uint64(i))
	}
	stats, err := b.c.ask(asked...)
	if err != nil {
		return nil, false, err
	}
	var list []beanstalkClaim
	var hide []string
	now := time.Now()
	for i := range stats {
		c, s := beanstalkClaim{ID: next[1].id() + uint64(i), Offset: b.Offset}, &stats[i]
		if c.learn(s); s.text("state") != "delayed" || s.number("delay") == beanstalkHide || c.Tube == beanstalkLists {
			continue
		}
		c.Due = now.Add(time.Duration(s.number("time-left")+1) * time.Second).UnixMilli() // time-left is rounded down
		list, hide = append(list, c), append(hide, fmt.Sprintf("reserve-job %d\r\n%s", c.ID, c.hide()))
	}
	if b.window = len(asked) * 2; len(list)*2 < len(asked) {
		b.window = len(asked) / 2
	}
	number, replies, err := b.listed(list, hide)
	if err != nil || len(list) == 0 {
		return nil, false, err
	}
	var bodies [][]byte
	var released []beanstalkReply
	for i := 0; i < len(replies); i += 2 {
		b.old = b.old || replies[i].is("UNKNOWN_COMMAND")
		bodies, released = append(bodies, replies[i].body), append(released, replies[i+1])
	}
	jobs, err = b.claimed(number, list, bodies, released)
	return jobs, true, err
}

// hide returns the command that turns a reserved job into a claim.
func (c *beanstalkClaim) hide() string {
	return fmt.Sprintf("release %d %d %d", c.ID, c.Priority, uint32(beanstalkHide))
}

// listed stores a list and then runs the commands that create the claims on it.
func (b *Beanstalkd) listed(list []beanstalkClaim, hide []string) (number uint64, replies []beanstalkReply, err error) {
	if len(list) == 0 {
		return 0, nil, nil
	}
	text, err := json.Marshal(list)
	if err != nil {
		return 0, nil, err
	}
	put, err := b.c.one(fmt.Sprintf("put 0 0 60 %d\r\n%s", len(text), text), "INSERTED")
	if err != nil {
		return 0, nil, err
	}
	replies, err = b.c.ask(strings.Split(strings.Join(hide, "\r\n"), "\r\n")...)
	return put.id(), replies, err
}

// claimed returns the jobs of a list that became claims. The ttr of the others had expired, or they were no longer
// delayed.
func (b *Beanstalkd) claimed(
	number uint64, list []beanstalkClaim, bodies [][]byte, replies []beanstalkReply,
) (jobs []Job, err error) {
	if len(list) == 0 {
		return nil, nil
	}
	for i, r := range replies {
		if r.is("RELEASED") {
			jobs = append(jobs, b.job(number, list[i], bodies[i]))
		}
	}
	b.lists[number] = len(jobs)
	return jobs, b.forget(number)
}

func (b *Beanstalkd) job(list uint64, c beanstalkClaim, body []byte) Job {
	p := queue.Push{
		Topic: b.TopicOf(c.Tube, c.Priority), ID: strconv.FormatUint(c.Offset+c.ID, 10), Body: body,
		ContentType: queue.TypeOf(body), Priority: b.PriorityOf(c.Priority),
		TTR: min(time.Duration(c.TTR)*time.Second, registry.MaxPullTTR),
		Via: fmt.Sprintf("import beanstalk %s %d", b.Addr, list),
	}
	if c.Due > 0 { // by this host's clock, which may differ from that of Redis
		p.Delay = max(0, time.Until(time.UnixMilli(c.Due)))
	}
	return Job{Key: beanstalkKey{list, c.ID}, Push: p}
}

// Left implements Old.
func (b *Beanstalkd) Left(context.Context) (jobs []Job, err error) {
	defer func() { b.c.failed = b.c.failed || err != nil }() // lists may be reserved
	only := []string{"watch " + beanstalkLists}
	for tube := range b.watched {
		only = append(only, "ignore "+tube)
	}
	if _, err := b.c.ask(only...); err != nil {
		return nil, err
	}
	var held []string // kept until all of them have been read
	for {
		list, err := b.c.ask("reserve-with-timeout 0")
		if err != nil {
			return nil, err
		}
		if !list[0].is("RESERVED") {
			break
		}
		some, err := b.leftOf(&list[0])
		if err != nil {
			return nil, err
		}
		if jobs = append(jobs, some...); len(some) > 0 {
			held = append(held, fmt.Sprintf("release %d 0 0", list[0].id()))
		}
	}
	_, err = b.c.ask(append(held, "watch "+defaultTube, "ignore "+beanstalkLists)...)
	b.watched = map[string]bool{defaultTube: true}
	return jobs, err
}

// leftOf returns the jobs of a list that are still claims.
func (b *Beanstalkd) leftOf(list *beanstalkReply) (jobs []Job, err error) {
	var claims []beanstalkClaim
	if err := json.Unmarshal(list.body, &claims); err != nil {
		return nil, fmt.Errorf("the job %d of the tube %s is not one of an import: %w", list.id(), beanstalkLists, err)
	}
	var requests []string
	for _, c := range claims {
		id := strconv.FormatUint(c.ID, 10)
		requests = append(requests, "stats-job "+id, "peek "+id)
	}
	replies, err := b.c.ask(requests...)
	if err != nil {
		return nil, err
	}
	for i, c := range claims {
		if stats, job := &replies[2*i], &replies[2*i+1]; stats.number("delay") == beanstalkHide && job.is("FOUND") {
			jobs = append(jobs, b.job(list.id(), c, job.body))
		}
	}
	b.lists[list.id()] = len(jobs)
	return jobs, b.forget(list.id())
}

// Drop implements Old. All jobs belong to one list.
func (b *Beanstalkd) Drop(_ context.Context, jobs []Job) error {
	if len(jobs) == 0 {
		return nil
	}
	requests := make([]string, len(jobs))
	for i, job := range jobs {
		requests[i] = fmt.Sprintf("delete %d", job.Key.(beanstalkKey).id)
	}
	if _, err := b.c.ask(requests...); err != nil {
		return err
	}
	list := jobs[0].Key.(beanstalkKey).list
	b.lists[list] -= len(jobs)
	return b.forget(list)
}

// forget deletes a list without claims.
func (b *Beanstalkd) forget(list uint64) error {
	if b.lists[list] > 0 {
		return nil
	}
	delete(b.lists, list)
	_, err := b.c.one(fmt.Sprintf("delete %d", list), "DELETED")
	return err
}
