package beanstalk

import (
	"fmt"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/pulltest"
	"github.com/wakecall/wakecall/test/wait"
)

// TestAFullRedisIsOutOfMemory for puts; workers empty it.
func TestAFullRedisIsOutOfMemory(t *testing.T) {
	t.Parallel()
	q := pulltest.Start(t, Namespace)
	c := dial(t, serveOn(t, q, q))
	c.send("put 5 0 60 1\r\nx\r\n")
	c.want("INSERTED 1\r\n")
	q.Redis.ConfigSet("maxmemory", "1")
	c.send("put 5 0 60 1\r\ny\r\nreserve\r\nrelease 1 9 0\r\nlist-tube-used\r\ndelete 1\r\n")
	c.want("OUT_OF_MEMORY\r\nRESERVED 1 1\r\nx\r\nRELEASED\r\nUSING default\r\nDELETED\r\n")
}

// TestWithoutAShardEveryCommandIsAnsweredOnce, and the connection stays open.
func TestWithoutAShardEveryCommandIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	q := pulltest.Start(t, Namespace)
	c := dial(t, serveOn(t, q, q))
	c.send("put 5 0 600 1\r\nx\r\nput 5 3600 600 1\r\ny\r\nreserve\r\n")
	c.want("INSERTED 1\r\nINSERTED 2\r\nRESERVED 1 1\r\nx\r\n")
	q.Redis.Shutdown()
	for _, command := range []string{
		"put 5 0 60 1\r\nz", "delete 2", "peek 2", "peek-delayed", "kick 1", "kick-job 2", "stats-job 2",
		"reserve-job 2",
		"stats", "list-tubes", "touch 1", "release 1 5 0", "release 1 6 0", "bury 1 5", "delete 1",
	} {
		c.send(command + "\r\nlist-tube-used\r\n")
		line, err := c.in.ReadString('\n')
		if err != nil || line != "INTERNAL_ERROR\r\n" {
			t.Fatalf("%q: %q, %v", command, line, err)
		}
		c.want("USING default\r\n")
	}
	c.send("use t\r\nwatch t\r\nignore default\r\nlist-tubes-watched\r\npause-tube t 5\r\n")
	c.want("USING t\r\nWATCHING 2\r\nWATCHING 1\r\nOK 8\r\n---\n- t\n\r\nPAUSED\r\n")
}

// TestJobsThatNoClientCanNameAreBuried: they were pushed through the API. The client gets the next job, and never an id
// that it cannot parse.
func TestJobsThatNoClientCanNameAreBuried(t *testing.T) {
	t.Parallel()
	q := pulltest.Start(t, Namespace)
	c := dial(t, serveOn(t, q, q))
	topic := topicOf("default")
	for _, id := range []string{"order-42", "007"} {
		if r := q.Push(t.Context(), store.Push{Topic: topic, ID: id, Body: []byte("x")}); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	c.send("peek-ready\r\nreserve-with-timeout 0\r\nput 5 0 60 1\r\ny\r\nreserve\r\npeek-buried\r\n")
	c.want("NOT_FOUND\r\nTIMED_OUT\r\nINSERTED 1\r\nRESERVED 1 1\r\ny\r\nNOT_FOUND\r\n")
	for _, id := range []string{"order-42", "007"} {
		job, err := q.Get(t.Context(), topic, id)
		if err != nil || job.State != store.Dead || len(job.History) != 1 || job.History[0].Error != foreignError {
			t.Errorf("%+v, %v", job, err)
		}
	}
}

// TestJobsOfTheAPIAreReserved if their id is a number.
func TestJobsOfTheAPIAreReserved(t *testing.T) {
	t.Parallel()
	q := pulltest.Start(t, Namespace)
	c := dial(t, serveOn(t, q, q))
	c.send("watch Mail\r\n")
	c.want("WATCHING 2\r\n")
	for _, id := range []string{"18446744073709551615", "3000000"} {
		p := store.Push{Topic: topicOf("Mail"), ID: id, Body: []byte("x")}
		if r := q.Push(t.Context(), p); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	c.send("reserve\r\n")
	if line, err := c.in.ReadString('\n'); err != nil || !strings.HasPrefix(line, "RESERVED ") {
		t.Fatalf("%q %v", line, err)
	}
	c.want("x\r\n")
	c.send("reserve\r\n")
	if line, err := c.in.ReadString('\n'); err != nil || !strings.HasPrefix(line, "RESERVED ") {
		t.Fatalf("%q %v", line, err)
	}
	c.want("x\r\n")
	c.send("delete 18446744073709551615\r\ndelete 3000000\r\n")
	c.want("DELETED\r\nDELETED\r\n")
	if s := c.stats("stats-tube Mail"); s["cmd-delete"] != "2" || s["current-jobs-reserved"] != "0" {
		t.Errorf("stats-tube: %v", s)
	}
}

// TestKickTakesTheOldestOfMany, even if more jobs are buried than fit on a page.
func TestKickTakesTheOldestOfMany(t *testing.T) {
	t.Parallel()
	q := pulltest.Start(t, Namespace)
	c := dial(t, serveOn(t, q, q))
	const n = listStep + 20
	for id := 1; id <= n; id++ {
		c.send(fmt.Sprintf("put 5 0 600 1\r\nx\r\nreserve\r\nbury %d 5\r\n", id))
		c.want(fmt.Sprintf("INSERTED %d\r\nRESERVED %d 1\r\nx\r\nBURIED\r\n", id, id))
	}
	c.send("kick 110\r\nkick 100\r\nkick 4294967295\r\nkick 4294967296\r\n")
	c.want("KICKED 110\r\nKICKED 10\r\nKICKED 0\r\nBAD_FORMAT\r\n")
	if s := c.stats("stats"); s["current-jobs-ready"] != fmt.Sprint(n) || s["current-jobs-buried"] != "0" {
		t.Errorf("stats: %v", s)
	}
}

// TestLongTimesAreCut to Wakecall's limits, and none is shorter than a second.
func TestLongTimesAreCut(t *testing.T) {
	t.Parallel()
	q := pulltest.Start(t, Namespace)
	c := dial(t, serveOn(t, q, q))
	c.send("put 5 4294967295 4294967295 1\r\nx\r\nput 5 0 0 1\r\ny\r\n")
	c.want("INSERTED 1\r\nINSERTED 2\r\n")
	if s := c.stats("stats-job 1"); s["state"] != "delayed" || s["delay"] != "315360000" || s["ttr"] != "86400" {
		t.Errorf("the longest: %v", s)
	}
	if s := c.stats("stats-job 2"); s["ttr"] != "1" {
		t.Errorf("the shortest: %v", s)
	}
	c.send("reserve-job 2\r\n")
	c.want("RESERVED 2 1\r\ny\r\n")
	other := dial(t, c.RemoteAddr())
	other.send("reserve-job 2\r\n") // it is reserved by another client
	other.want("NOT_FOUND\r\n")
	wait.For(t, "the end of its ttr", func() bool { return other.stats("stats-job 2")["state"] == "ready" })
	// The connection that held it counts it, by the host's clock.
	wait.For(t, "its timeout to be counted", func() bool { return c.stats("stats")["job-timeouts"] == "1" })
	c.send("delete 2\r\n") // its lease has expired, so any client may
	c.want("DELETED\r\n")
}

// TestCommandsAreReadAsTheyCome, byte by byte or all at once. None is read after the line of an HTTP request.
func TestCommandsAreReadAsTheyCome(t *testing.T) {
	t.Parallel()
	longRequest := "GET /" + strings.Repeat("x", 300) + " HTTP/1.1\r\nquit\r\n"
	for input, want := range map[string]string{
		"stats\r\n":                                   "stats []",
		"use a\r\nuse  b\r\n":                         "use [a]|use [ b]",
		"put 1 2 3 4\r\nab\r\n\r\nquit\r\n":           `put [1 2 3 4] "ab\r\n"|quit []`,
		"put 1 2 3 0\r\n\r\n":                         `put [1 2 3 0] ""`,
		"put 1 2 3 2\r\nabcd\r\nquit\r\n":             "put [1 2 3 2] EXPECTED_CRLF|quit []",
		"put 1 2 3 2\r\nab\n\nquit\r\n":               "put [1 2 3 2] EXPECTED_CRLF|quit []",
		"put 1 2 3 2\r\nabc\nquit\r\n":                "put [1 2 3 2] EXPECTED_CRLF|quit []",
		"put 1 2 3 9\r\n123456789\r\nquit\r\n":        "put [1 2 3 9] JOB_TOO_BIG|quit []",
		"put 1 2 3\r\nquit\r\n":                       "[] BAD_FORMAT|quit []",
		"put 1 2 3 +4\r\n":                            "[] BAD_FORMAT",
		"put 1 2 3 4 5\r\n":                           "[] BAD_FORMAT",
		"use a\nquit\r\nquit\r\n":                     "use [a\nquit]|quit []",
		"quit\n":                                      "",
		"\r\n":                                        "[]",
		"a\x00\r\nquit\r\n":                           "[] BAD_FORMAT|quit []",
		strings.Repeat("x", maxLine-2) + "\r\nq\r\n":  strings.Repeat("x", maxLine-2) + " []|q []",
		strings.Repeat("x", maxLine-1) + "\r\nq\r\n":  "[] BAD_FORMAT|q []",
		strings.Repeat("x", 10_000) + "\r\nq\r\n":     "[] BAD_FORMAT|q []",
		"half a command":                              "",
		"use HTTP/1.1\r\nquit\r\n":                    "use [HTTP/1.1]|quit []",
		"POST / HTTP/1.1\r\nquit\r\n":                 "",
		longRequest:                                   "",
		"put 1 2 3 4\r\nab":                           "",
		"put 1 2 3 9\r\n1234":                         "",
		"put 1 2 3 4294967295\r\n" + "1234\r\nquit\r": "",
	} {
		for name, r := range map[string]*reader{
			"at once":      newReader(strings.NewReader(input), 8),
			"byte by byte": newReader(iotest.OneByteReader(strings.NewReader(input)), 8),
		} {
			var got []string
			for {
				c, err := r.next()
				if err != nil {
					break
				}
				text := strings.TrimSpace(fmt.Sprint(c.name, " ", c.args))
				if c.refusal != "" {
					text += " " + c.refusal
				} else if c.body != nil {
					text += fmt.Sprintf(" %q", c.body)
				}
				got = append(got, text)
			}
			if text := strings.Join(got, "|"); text != want {
				t.Errorf("%.40q %s is %q, want %q", input, name, text, want)
			}
		}
	}
}

func TestNumbersAreDecimal(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"0": true, "007": true, "4294967295": true, "4294967296": false, "": false, "-1": false, "+1": false,
		"1_0": false,
		"0x1": false, "1.0": false, "١": false,
	} {
		if _, got := number(text, 32); got != ok {
			t.Errorf("%q is a number: %t", text, got)
		}
	}
	if n, ok := number("18446744073709551615", 64); !ok || n != 1<<64-1 {
		t.Errorf("the largest id is %d, %t", n, ok)
	}
	if d := delayOf(4294967295); d != maxDelay {
		t.Errorf("the longest delay is %s", d)
	}
	if d := ttrOf(0); d != time.Second {
		t.Errorf("the shortest ttr is %s", d)
	}
}

// TestWatchedTubesAreLimited for a connection, and those that all of them wait for.
func TestWatchedTubesAreLimited(t *testing.T) {
	t.Parallel()
	q := pulltest.Start(t, Namespace)
	addr := serveOn(t, q, q)
	c := dial(t, addr)
	watch := func(c *client, prefix string) {
		for n := 2; n <= pulltest.MaxTopics; n++ {
			c.send(fmt.Sprintf("watch %s%d\r\n", prefix, n))
			c.want(fmt.Sprintf("WATCHING %d\r\n", n))
		}
	}
	watch(c, "t")
	c.send("watch more\r\nwatch t2\r\nignore t2\r\nwatch more\r\n")
	c.want("OUT_OF_MEMORY\r\nWATCHING 20\r\nWATCHING 19\r\nWATCHING 20\r\n")
	for i := range 3 {
		prefix := fmt.Sprint("c", i, "-")
		for n := range pulltest.MaxTopics {
			c.send(fmt.Sprintf("use %s%d\r\nput 0 1000 0 0\r\n\r\n", prefix, n+1)) // a tube is known by its jobs
			c.want(fmt.Sprintf("USING %s%d\r\nINSERTED %d\r\n", prefix, n+1, pulltest.MaxTopics*i+n+1))
		}
		others := dial(t, addr)
		watch(others, prefix)
		if i < 2 {
			others.send("reserve\r\n")
			wait.For(t, "it waits", func() bool { return q.Hub.Workers() == i+1 })
			continue
		}
		others.send("reserve-with-timeout 0\r\nreserve-with-timeout 9\r\n")
		others.want("TIMED_OUT\r\nOUT_OF_MEMORY\r\n")
	}
}

// TestATopicsTTRIsShown for a job of the API without its own ttr.
func TestATopicsTTRIsShown(t *testing.T) {
	t.Parallel()
	q := pulltest.Start(t, Namespace)
	c := dial(t, serveOn(t, q, q))
	if r := q.Push(t.Context(), store.Push{Topic: topicOf("default"), ID: "7", Body: []byte("x")}); r.Err != nil {
		t.Fatal(r.Err)
	}
	if s := c.stats("stats-job 7"); s["ttr"] != "10" {
		t.Errorf("stats-job: %v", s)
	}
}

// TestWithOneShardOfTwoWorkGoesOn: only the jobs of the other shard wait, and workers without a job wait, too.
func TestWithOneShardOfTwoWorkGoesOn(t *testing.T) {
	t.Parallel()
	q := pulltest.Start(t, Namespace)
	down := q.AddShard(t)
	at := serveOn(t, q, q)
	c := dial(t, at)
	down.Shutdown()
	c.send("put 5 0 60 1\r\nx\r\nreserve\r\n")
	c.want("INSERTED 1\r\nRESERVED 1 1\r\nx\r\n")
	other := dial(t, at)
	other.send("reserve-with-timeout 0\r\nreserve-with-timeout 1\r\nreserve\r\n")
	other.want("TIMED_OUT\r\nTIMED_OUT\r\n")
	c.send("peek 1\r\nrelease 1 5 0\r\n")
	c.want("FOUND 1 1\r\nx\r\nRELEASED\r\n")
	other.want("RESERVED 1 1\r\nx\r\n")
	other.send("delete 1\r\nput 7 0 60 1\r\ny\r\n")
	other.want("DELETED\r\nINSERTED 2\r\n")
	again := dial(t, serveOn(t, q, q)) // another gateway, which has not seen the job
	again.send("peek 2\r\ndelete 2\r\n")
	again.want("FOUND 2 1\r\ny\r\nDELETED\r\n")
}
