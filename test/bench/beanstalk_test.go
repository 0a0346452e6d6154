package bench

import (
	"context"
	"os/exec"
	"strings"
	"time"

	"github.com/beanstalkd/go-beanstalk"

	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/harness/process"
	"github.com/wakecall/wakecall/test/wait"
)

// beanstalkd measures what beanstalkd's clients do, with Wakecall's gateway and with beanstalkd itself if it is installed.
func beanstalkd(b *bench) {
	addr := b.freeAddr()
	b.start(map[string]string{"WAKECALL_GATEWAYS_BEANSTALK_ADDR": addr})
	put, taken := b.tubeRates(addr)
	const (
		putting = "beanstalkd's clients: put, 64 connections"
		taking  = "beanstalkd's clients: reserve and delete, 64 workers"
	)
	binary, err := exec.LookPath("beanstalkd")
	if err != nil {
		b.figure(putting, "/s", "", put)
		b.figure(taking, "jobs/s", "", taken)
		return
	}
	theirPut, theirTaken := b.tubeRates(b.startBeanstalkd(binary))
	b.beside(putting, "/s", "", put, "beanstalkd", theirPut)
	b.beside(taking, "jobs/s", "", taken, "beanstalkd", theirTaken)
}

// startBeanstalkd starts beanstalkd with a log that reaches the disk every second, like Wakecall's Redis.
func (b *bench) startBeanstalkd(binary string) string {
	addr, dir := b.freeAddr(), process.Dir(b, "beanstalkd")
	host, port, _ := strings.Cut(addr, ":")
	process.Start(b, dir, "beanstalkd", exec.Command(binary, "-l", host, "-p", port, "-b", dir, "-f", "1000"))
	return addr
}

// tubeRates returns how many delayed jobs are put a second, and how many ready ones are reserved and deleted.
func (b *bench) tubeRates(addr string) (put, taken float64) {
	b.Helper()
	put = b.rate(64, b.tube(addr, func(c *beanstalk.Conn, n int) error {
		_, err := c.Put([]byte(body(n)), 1024, time.Hour, time.Minute)
		return err
	}))
	left := make(chan int, b.pull)
	for n := range cap(left) {
		left <- n
	}
	b.ok(harness.StartClients(b, 64, 0, b.tube(addr, func(c *beanstalk.Conn, _ int) error {
		select {
		case n := <-left:
			_, err := c.Put([]byte(body(n)), 1024, 0, time.Minute)
			return err
		default:
			return harness.ErrDone
		}
	})).Wait())
	taken = b.rate(64, b.tube(addr, func(c *beanstalk.Conn, _ int) error {
		id, _, err := c.Reserve(5 * time.Second)
		if err != nil {
			return err
		}
		return c.Delete(id)
	}))
	return put, taken
}

// tube returns clients that do one thing again and again, each over its own connection.
func (b *bench) tube(addr string, do func(c *beanstalk.Conn, client int) error) func(int) harness.Client {
	return func(n int) harness.Client {
		var conn *beanstalk.Conn
		err := wait.Until(b.Context(), 10*time.Millisecond, func() (err error) {
			conn, err = beanstalk.Dial("tcp", addr)
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = conn.Close() })
		return func(context.Context) error { return do(conn, n) }
	}
}
