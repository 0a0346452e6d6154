package beanstalk

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"testing"
	"time"

	gobeanstalk "github.com/beanstalkd/go-beanstalk"

	"github.com/wakecall/wakecall/gateway/importer"
	"github.com/wakecall/wakecall/gateway/importer/importtest"
	"github.com/wakecall/wakecall/test/freeport"
	"github.com/wakecall/wakecall/test/harness"
)

// startBeanstalkd starts Debian's beanstalkd.
func startBeanstalkd(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("beanstalkd")
	if err != nil {
		t.Skip("SKIPPED: beanstalkd is not installed (apt-get install beanstalkd)")
	}
	port := freeport.TCP(t)
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	cmd := exec.Command(path, "-l", "127.0.0.1", "-p", fmt.Sprint(port))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	harness.Eventually(t, time.Minute, "beanstalkd accepts connections", func() error {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			_ = c.Close()
		}
		return err
	})
	return addr
}

func openBeanstalkd(t *testing.T, addr string) *source {
	t.Helper()
	b := &source{addr: addr}
	if err := b.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.close)
	return b
}

func TestImportedJobsAreClaimedOnce(t *testing.T) {
	t.Parallel()
	addr := startBeanstalkd(t)
	b, ctx := openBeanstalkd(t, addr), t.Context()
	client, err := gobeanstalk.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	put := func(tube string, pri uint32, delay time.Duration) uint64 {
		t.Helper()
		id, err := gobeanstalk.NewTube(client, tube).Put([]byte("body\r\n"), pri, delay, 90*time.Second)
		must(err)
		return id
	}
	must(b.Lock(ctx))
	var last uint64 // that the import was asked to allocate ids for
	b.more = func(_ context.Context, id uint64) (span, error) {
		last = id
		return span{Offset: 1000, Last: 1000}, nil
	}
	ready, delayed := put("T", 5, 0), put("U", 7, time.Hour)
	held, buried := put("default", 1, 0), put("V", 1, 0)
	if _, _, err := client.Reserve(0); err != nil { // the job in default
		t.Fatal(err)
	}
	_, _, err = gobeanstalk.NewTubeSet(client, "V").Reserve(0)
	must(err)
	must(client.Bury(buried, 1))
	first, err := b.Claim(ctx, 100)
	must(err)
	if len(first) != 1 || first[0].Push.ID != fmt.Sprint(1000+ready) || first[0].Push.Topic != topicOf("T") ||
		string(first[0].Push.Body) != "body\r\n" || first[0].Push.TTR != 90*time.Second {
		t.Fatalf("first %+v, want the ready job", first)
	}
	if last != ready {
		t.Errorf("ids were allocated up to %d, and the first claimed job is %d", last, ready)
	}
	if _, _, err := gobeanstalk.NewTubeSet(client, "T").Reserve(0); !errors.Is(err, gobeanstalk.ErrTimeout) {
		t.Errorf("a consumer of a claimed job: %v", err)
	}
	second, err := b.Claim(ctx, 100)
	must(err)
	if len(second) != 1 || second[0].Push.ID != fmt.Sprint(1000+delayed) {
		t.Fatalf("then %+v, want the delayed job", second)
	}
	if left := second[0].Push.Delay; left < 59*time.Minute || left > time.Hour+2*time.Second {
		t.Errorf("it is due in %s", left)
	}
	if third, err := b.Claim(ctx, 100); len(third) != 0 || err != nil {
		t.Errorf("then %+v %v", third, err)
	}
	if n, err := b.Waiting(ctx); n != 2 || err != nil {
		t.Errorf("%d jobs are waiting, %v, want the claimed ones without their lists", n, err)
	}
	if n, err := b.Dead(ctx); n != 1 || err != nil {
		t.Errorf("%d jobs are buried, %v", n, err)
	}
	b.close() // as a killed import
	again := openBeanstalkd(t, addr)
	harness.Eventually(t, time.Minute, "the killed import releases the lock", func() error { return again.Lock(ctx) })
	left, err := again.Left(ctx)
	must(err)
	if len(left) != 2 || left[0].Push.Via == left[1].Push.Via {
		t.Fatalf("%d claims are left, want 2 on two lists", len(left))
	}
	for _, job := range left {
		if job.Push.ID != first[0].Push.ID && job.Push.ID != second[0].Push.ID {
			t.Errorf("the remaining claim has another id, %s", job.Push.ID)
		}
	}
	if other := openBeanstalkd(t, addr); !errors.Is(other.Lock(ctx), importer.ErrLocked) {
		t.Error("a second import is not refused")
	}
	importtest.Drop(t, again, left)
	if none, err := again.Left(ctx); len(none) != 0 || err != nil {
		t.Errorf("then %d claims are left, %v", len(none), err)
	}
	stats, err := client.Stats()
	must(err)
	if stats["current-jobs-ready"] != "0" || stats["current-jobs-delayed"] != "0" ||
		stats["current-jobs-buried"] != "1" {
		t.Errorf("at the end: %v", stats)
	}
	must(client.Delete(held))
}
