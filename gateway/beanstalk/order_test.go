package beanstalk

import (
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/test/pulltest"
	"github.com/wakecall/wakecall/test/wait"
)

// TestAReleasedJobKeepsItsPlace among jobs of its priority.
func TestAReleasedJobKeepsItsPlace(t *testing.T) {
	c := dial(t, serve(t))
	c.send("put 5 0 60 1\r\na\r\nput 5 0 60 1\r\nb\r\nreserve\r\nrelease 1 5 0\r\nreserve\r\nreserve\r\n")
	c.want("INSERTED 1\r\nINSERTED 2\r\nRESERVED 1 1\r\na\r\nRELEASED\r\nRESERVED 1 1\r\na\r\nRESERVED 2 1\r\nb\r\n")
	c.send("bury 1 9\r\nrelease 2 10 0\r\nkick 1\r\n") // both have another priority now
	c.want("BURIED\r\nRELEASED\r\nKICKED 1\r\n")
	if s := c.stats("stats-job 1"); s["pri"] != "9" {
		t.Errorf("after bury and kick: %v", s)
	}
	c.send("peek-ready\r\nreserve\r\nreserve\r\n")
	c.want("FOUND 1 1\r\na\r\nRESERVED 1 1\r\na\r\nRESERVED 2 1\r\nb\r\n")
}

// TestManyPrioritiesAreOneTopic, however many clients wait: a timestamp as priority is common.
func TestManyPrioritiesAreOneTopic(t *testing.T) {
	t.Parallel()
	q := pulltest.Start(t, Namespace)
	addr := serveOn(t, q, q)
	const priorities, waiting = 5000, 200
	c := dial(t, addr)
	var puts, answers strings.Builder
	for n := range priorities {
		fmt.Fprintf(&puts, "put %d 0 600 1\r\nx\r\n", 1_700_000_000-n)
		fmt.Fprintf(&answers, "INSERTED %d\r\n", n+1)
	}
	go func() { _, _ = io.WriteString(c, puts.String()) }()
	c.want(answers.String())
	if members, err := q.Members(t.Context(), Namespace); err != nil || len(members) != 1 {
		t.Errorf("%d topics have jobs, %v; want 1", len(members), err)
	}
	if keys := q.Redis.Client().DBSize(t.Context()).Val(); keys > 30 {
		t.Errorf("%d keys", keys)
	}
	waiters := make([]*client, waiting)
	for i := range waiters {
		waiters[i] = dial(t, addr)
		waiters[i].send("watch waited\r\nignore default\r\nreserve\r\n")
		waiters[i].want("WATCHING 2\r\nWATCHING 1\r\n")
	}
	wait.For(t, "all clients wait", func() bool { return c.stats("stats")["current-waiting"] == fmt.Sprint(waiting) })
	before := scriptCalls(t, q)
	const others = 50
	c.send("use waited\r\n" + strings.Repeat("put 7 0 600 1\r\nx\r\n", others))
	c.want("USING waited\r\n")
	for n := range others {
		c.want(fmt.Sprintf("INSERTED %d\r\n", priorities+n+1))
	}
	wait.For(t, "their jobs are reserved", func() bool {
		return c.stats("stats-tube waited")["current-jobs-reserved"] == fmt.Sprint(others)
	})
	if n := scriptCalls(t, q) - before; n > 40*others {
		t.Errorf("%d calls of scripts for %d jobs", n, others)
	}
	if topics := len(q.Hub.Waiting()); topics != 1 {
		t.Errorf("clients wait for %d topics, want 1", topics)
	}
	c.send("reserve\r\n")
	c.want(fmt.Sprintf("RESERVED %d 1\r\nx\r\n", priorities))
}

func scriptCalls(t *testing.T, q *pulltest.Queue) (calls int) {
	t.Helper()
	info := q.Redis.Client().Info(t.Context(), "commandstats").Val()
	_, after, _ := strings.Cut(info, "cmdstat_evalsha:calls=")
	digits, _, _ := strings.Cut(after, ",")
	calls, err := strconv.Atoi(digits)
	if err != nil {
		t.Fatal(err)
	}
	return calls
}

// modelTube is what beanstalkd does with the jobs of a tube.
type modelTube struct {
	jobs map[int]*modelJob
	last int
}

type modelJob struct {
	id       int
	priority uint32
	state    string
}

// next returns the job that a reserve takes: the lowest priority, then the lowest id.
func (m *modelTube) next() *modelJob {
	ready := m.in("ready")
	if len(ready) == 0 {
		return nil
	}
	return slices.MinFunc(ready, func(a, b *modelJob) int {
		return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.id, b.id))
	})
}

func (m *modelTube) in(state string) (jobs []*modelJob) {
	for id := 1; id <= m.last; id++ {
		if j := m.jobs[id]; j != nil && j.state == state {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// TestTheOrderIsBeanstalkds over random commands: puts, delays, releases, burials and kicks.
func TestTheOrderIsBeanstalkds(t *testing.T) {
	c := dial(t, serve(t))
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	m := &modelTube{jobs: map[int]*modelJob{}}
	priority := func() uint32 { return []uint32{0, 1, 1023, 1024, 1025, 1 << 31, 1<<32 - 1}[r.IntN(7)] }
	one := func(jobs []*modelJob) *modelJob {
		if len(jobs) == 0 {
			return nil
		}
		return jobs[r.IntN(len(jobs))]
	}
	do := func(command, answer string) {
		t.Helper()
		c.send(command + "\r\n")
		c.want(answer + "\r\n")
	}
	for range 600 {
		switch r.IntN(7) {
		case 0, 1:
			m.last++
			j := &modelJob{m.last, priority(), "ready"}
			delay := 0
			if r.IntN(3) == 0 {
				j.state, delay = "delayed", 600
			}
			m.jobs[j.id] = j
			do(fmt.Sprintf("put %d %d 600 1\r\nx", j.priority, delay), fmt.Sprintf("INSERTED %d", j.id))
		case 2, 3:
			j := m.next()
			if j == nil {
				do("peek-ready\r\nreserve-with-timeout 0", "NOT_FOUND\r\nTIMED_OUT")
				continue
			}
			do("peek-ready", fmt.Sprintf("FOUND %d 1\r\nx", j.id))
			do("reserve", fmt.Sprintf("RESERVED %d 1\r\nx", j.id))
			j.state = "reserved"
		case 4:
			if j := one(m.in("reserved")); j != nil {
				if r.IntN(2) == 0 {
					j.priority = priority()
				}
				do(fmt.Sprintf("release %d %d 0", j.id, j.priority), "RELEASED")
				j.state = "ready"
			}
		case 5:
			if j := one(m.in("reserved")); j != nil {
				j.priority, j.state = priority(), "buried"
				do(fmt.Sprintf("bury %d %d", j.id, j.priority), "BURIED")
			}
		case 6:
			if j := one(slices.Concat(m.in("buried"), m.in("delayed"))); j != nil {
				do(fmt.Sprintf("kick-job %d", j.id), "KICKED")
				j.state = "ready"
			}
		}
	}
	hidden := fmt.Sprint(len(m.in("delayed")))
	for range 50 { // these fall due
		m.last++
		j := &modelJob{m.last, priority(), "ready"}
		m.jobs[j.id] = j
		do(fmt.Sprintf("put %d 1 600 1\r\nx", j.priority), fmt.Sprintf("INSERTED %d", j.id))
	}
	wait.For(t, "the delays end", func() bool {
		return c.stats("stats-tube default")["current-jobs-delayed"] == hidden
	})
	urgentJobs := 0
	for _, j := range m.in("ready") {
		if j.priority < urgent {
			urgentJobs++
		}
	}
	if s := c.stats("stats-tube default"); s["current-jobs-urgent"] != fmt.Sprint(urgentJobs) ||
		s["current-jobs-ready"] != fmt.Sprint(len(m.in("ready"))) {
		t.Errorf("%v; want %d urgent of %d", s, urgentJobs, len(m.in("ready")))
	}
	for j := m.next(); j != nil; j = m.next() {
		do("reserve", fmt.Sprintf("RESERVED %d 1\r\nx", j.id))
		j.state = "reserved"
	}
}
