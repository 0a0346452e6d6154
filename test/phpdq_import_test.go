package test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/test/dbtest"
	"github.com/wakecall/wakecall/test/harness"
)

// phpDelayqueue is the storage of a php-delayqueue: its tables and a Redis.
type phpDelayqueue struct {
	dsn   string
	redis *redis.Client
	addr  string
}

func startPHPDelayqueue(t *testing.T, callback string) *phpDelayqueue {
	t.Helper()
	server, db := harness.StartRedis(t, harness.RedisOptions{}), dbtest.StartServer(t)
	old := &phpDelayqueue{addr: server.Addr()}
	old.dsn = db.DSN("dq")
	old.redis = patient(old.addr)
	t.Cleanup(func() { _ = old.redis.Close() })
	db.Exec(t, "",
		"CREATE DATABASE dq",
		"CREATE TABLE dq.dq_redis (id INT AUTO_INCREMENT PRIMARY KEY, t_name VARCHAR(200) NOT NULL, t_content "+
			"VARCHAR(2048) NOT NULL)",
		`CREATE TABLE dq.dq_topic (id INT AUTO_INCREMENT PRIMARY KEY, t_name VARCHAR(1024) NOT NULL DEFAULT '',
			delay INT NOT NULL DEFAULT 0, callback VARCHAR(1024) NOT NULL DEFAULT '', timeout INT NOT NULL DEFAULT 3000,
			email VARCHAR(1024) NOT NULL DEFAULT '', topic VARCHAR(255) NOT NULL DEFAULT '',
			re_notify_flag VARCHAR(1024) NOT NULL DEFAULT '重试标记', createor VARCHAR(1024) NOT NULL DEFAULT '',
			status TINYINT NOT NULL DEFAULT 1, method VARCHAR(32) NOT NULL DEFAULT 'GET', priority INT NOT NULL DEFAULT 2
			) DEFAULT CHARSET=utf8mb4`,
		"INSERT INTO dq.dq_redis (t_name, t_content) VALUES ('one', '"+old.addr+"')",
		`INSERT INTO dq.dq_topic (t_name, delay, callback, timeout, email, topic, createor, priority) VALUES
			('关闭订单', 1800, '`+callback+`', 2000, 'a@x.example,b@x.example', 'Order_Close', 'li', 1)`,
		`INSERT INTO dq.dq_topic (delay, callback, topic, re_notify_flag, method, status) VALUES
			(5, '`+callback+`', 'mail', '{res.code}!=200', 'post', 2)`)
	return old
}

// add stores jobs as php-delayqueue's server does.
func (old *phpDelayqueue) add(t *testing.T, topic string, ids []string, due time.Time) {
	t.Helper()
	_, err := old.redis.Pipelined(ctx, func(c redis.Pipeliner) error {
		for _, id := range ids {
			c.HSet(ctx, "dq_job_info", topic+":"+id, `{"id":"`+id+`","notify_time":"`+due.Local().Format(time.DateTime)+
				`","dq_set_time":"`+time.Now().Format(time.DateTime)+`"}`)
			c.ZAdd(ctx, "dq_bucket_1", redis.Z{Score: float64(due.Unix()), Member: topic + ":" + id})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func numbered(prefix string, n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprint(prefix, i))
	}
	return ids
}

func TestImportOfPHPDelayqueue(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{})
	i.endpoint.Set("/h.php", harness.Text(200, "OK"))
	old := startPHPDelayqueue(t, i.endpoint.URL("/h.php"))
	due := time.Now().Add(time.Hour).Truncate(time.Second)
	old.add(t, "Order_Close", numbered("", 1200), due)
	old.add(t, "gone", []string{"1"}, due)
	if err := old.redis.HSet(ctx, "dq_job_info", "Order_Close:ready",
		`{"id":"ready","exp_notify_nums":3}`).Err(); err != nil {
		t.Fatal(err)
	}
	if err := old.redis.RPush(ctx, "dq_2ready_queue", "Order_Close:ready", "Order_Close:deleted").Err(); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		t.Helper()
		code, out := i.Run(append([]string{"import", "phpdq", "--mysql", old.dsn}, args...)...)
		if code != 0 {
			t.Fatalf("exit %d: %s", code, out)
		}
		return out
	}
	if out := run("--dry-run"); !strings.Contains(out, " 1201\n") {
		t.Errorf("the dry run prints %s", out)
	}
	if n := i.Do(ctx, "GET", "/v1/topics/order_close", nil).Status; n != 404 {
		t.Errorf("a dry run registered a topic: %d", n)
	}
	out := run()
	if !regexp.MustCompile(`left in the old system +1\n`).MatchString(out) {
		t.Errorf("the import does not report the job whose topic is not registered: %s", out)
	}
	var topic struct {
		Title, Dialect, Method, Priority, TTR, Delay, Owner, State string
		RetryIf                                                    string `json:"retry_if"`
		Max                                                        int    `json:"max_attempts"`
		Emails                                                     []string
	}
	get := func(name string) {
		t.Helper()
		if err := i.MustDo(t, 200, "GET", "/v1/topics/"+name, nil).JSON(&topic); err != nil {
			t.Fatal(err)
		}
	}
	if get("order_close"); topic.Title != "关闭订单" || topic.Dialect != "phpdq" || topic.Method != http.MethodGet ||
		topic.Priority != "high" ||
		topic.TTR != "2s" || topic.Delay != "30m0s" || topic.Owner != "li" || topic.State != "active" ||
		topic.RetryIf != "" ||
		topic.Max != 12 || len(topic.Emails) != 2 {
		t.Errorf("registered as %+v", topic)
	}
	if get("mail"); topic.Method != http.MethodPost || topic.State != "offline" || topic.RetryIf != "{res.code}!=200" ||
		topic.Priority != "normal" {
		t.Errorf("registered as %+v", topic)
	}
	calls := i.endpoint.WaitCalls(t, "order_close", 1)
	if q := calls[0].Query; q.Get("id") != "ready" || q.Get("exp_notify_nums") != "3" {
		t.Errorf("called with %v", q)
	}
	if stats := i.MustStats(t, "order_close"); stats.Delayed != 1200 {
		t.Errorf("%+v, want 1200 delayed; %s", stats, out)
	}
	if job := i.MustGet(t, "order_close", "7"); !job.DueAt.Equal(due) || job.State != "delayed" {
		t.Errorf("job 7 is %+v, want it due at %s", job, due)
	}
	left := old.redis.HGetAll(ctx, "dq_job_info").Val()
	if len(left) != 1 || old.redis.ZCard(ctx, "dq_bucket_1").Val() != 1 ||
		old.redis.HLen(ctx, "dq_wakecall_claims").Val() != 0 {
		t.Errorf("the old Redis has %v, want only the job of a topic that is not registered", left)
	}
	// The job is added there again after the import, and is newer than the one here.
	old.add(t, "Order_Close", []string{"7"}, due.Add(time.Hour))
	harness.Eventually(t, soon, "the clock to advance by a second", func() error {
		if !time.Now().Truncate(time.Second).After(i.MustGet(t, "order_close", "7").CreatedAt) {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	old.add(t, "Order_Close", []string{"7"}, due.Add(time.Hour))
	run()
	if job := i.MustGet(t, "order_close", "7"); !job.DueAt.Equal(due.Add(time.Hour)) {
		t.Errorf("job 7 is still due at %s", job.DueAt)
	}
}

// An import that is killed at any point is started again: every job is called exactly once.
func TestAKilledImportLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	const jobs = 20_000
	i := start(t, harness.Options{})
	i.endpoint.Set("/h.php", harness.Text(200, "OK"))
	old := startPHPDelayqueue(t, i.endpoint.URL("/h.php"))
	old.add(t, "Order_Close", numbered("", jobs), time.Now())
	began := time.Now()
	kills := killedImport(t, i, "phpdq", "--mysql", old.dsn)
	t.Logf("%d jobs in %s with %d kills", jobs, time.Since(began), kills)
	if n := old.redis.Exists(ctx, "dq_job_info", "dq_bucket_1", "dq_wakecall_claims").Val(); n > 0 {
		t.Errorf("the old Redis still has %d of the keys", n)
	}
	harness.Eventually(t, soon, "all jobs to be called", func() error {
		if stats := i.MustStats(t, "order_close"); stats.Delayed+stats.Ready+stats.Running > 0 {
			return fmt.Errorf("%+v", stats)
		}
		return nil
	})
	times := map[string]int{}
	for _, c := range i.endpoint.Calls("order_close") {
		times[c.ID]++
	}
	double := 0
	for _, n := range times {
		if n > 1 {
			double++
		}
	}
	if len(times) != jobs || double > 0 {
		t.Errorf("%d of %d jobs were called, %d of them twice", len(times), jobs, double)
	}
}

func movingPHPDelayqueue(t *testing.T, done *consumed) (*installation, *moving) {
	i, addr := startPHPDQ(t)
	i.endpoint.Set("/h.php", func(w http.ResponseWriter, _ *http.Request, c harness.Call) int {
		done.add(c.ID)
		_, _ = io.WriteString(w, "OK")
		return http.StatusOK
	})
	old := startPHPDelayqueue(t, i.endpoint.URL("/h.php"))
	return i, &moving{
		args: []string{"--mysql", old.dsn},
		add:  func(id string) { old.add(t, "Order_Close", []string{id}, time.Now()) },
		gateway: func(id string) error {
			request := `{"cmd":"add","topic":"Order_Close","id":"` + id +
				`","fix_time":"2026-01-01 00:00:00","body":{"a":1}}`
			for deadline := time.Now().Add(soon); ; time.Sleep(10 * time.Millisecond) { // until it knows the topic
				if err := phpAdd(addr, request); err == nil || time.Now().After(deadline) {
					return err
				}
			}
		},
		work: func() { // a timer moves due jobs; a consumer deletes a job and then makes the call
			due, _ := old.redis.ZRange(ctx, "dq_bucket_1", 0, 0).Result()
			if len(due) == 1 && old.redis.ZRem(ctx, "dq_bucket_1", due[0]).Val() == 1 {
				old.redis.RPush(ctx, "dq_1ready_queue", due[0])
			}
			if name := old.redis.LPop(ctx, "dq_1ready_queue").Val(); old.redis.HDel(ctx, "dq_job_info",
				name).Val() == 1 {
				done.addOld(strings.TrimPrefix(name, "Order_Close:"))
			}
		},
		drain: func(<-chan struct{}) {}, // its endpoint is called
		left: func() int64 {
			return old.redis.Exists(ctx, "dq_job_info", "dq_bucket_1", "dq_1ready_queue", "dq_wakecall_claims").Val()
		},
	}
}
