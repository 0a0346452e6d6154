package beanstalk

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/gateway/importer"
)

// scripted is a beanstalkd with some scripted answers; to other commands it answers UNKNOWN_COMMAND.
func scripted(t *testing.T, answers map[string]string) *source {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		for in := bufio.NewReader(c); ; {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			command := strings.TrimSpace(line)
			if strings.HasPrefix(command, "put ") {
				_, _ = in.ReadString('\n')
				command = "put"
			}
			answer, ok := answers[command]
			if answer == "hang up" {
				return
			}
			if !ok {
				answer = "UNKNOWN_COMMAND"
			}
			fmt.Fprint(c, answer+"\r\n")
		}
	}()
	b := &source{addr: l.Addr().String(), ids: span{Last: room}}
	t.Cleanup(func() {
		_ = l.Close()
		if b.c != nil {
			b.close()
		}
		<-ended
	})
	return b
}

func okYAML(body string) string { return fmt.Sprintf("OK %d\r\n%s", len(body), body) }

// TestWhatIsNoBeanstalkdIsNamed: for another kind of server, or one that violates the protocol, the error contains the
// command and the reply, and the reply is not taken for a job.
func TestWhatIsNoBeanstalkdIsNamed(t *testing.T) {
	t.Parallel()
	const use = "use wakecall-import"
	for name, x := range map[string]struct {
		answers map[string]string
		says    string
	}{
		"HTTP":            {map[string]string{use: "HTTP/1.1 400 Bad Request"}, `import" with "HTTP/1.1 400`},
		"an end":          {map[string]string{use: "hang up"}, "send to beanstalkd: EOF"},
		"nothing":         {map[string]string{use: ""}, "empty reply"},
		"no length":       {map[string]string{use: "OK many"}, `reply "OK many" has no length`},
		"a wrong length":  {map[string]string{use: "FOUND 1 -5"}, `reply "FOUND 1 -5" has no length`},
		"a long line":     {map[string]string{use: strings.Repeat("x", 8<<10)}, "buffer full"},
		"a huge body":     {map[string]string{use: "OK 4000000000"}, "more than 512 MiB"},
		"another command": {map[string]string{}, `with "UNKNOWN_COMMAND"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := scripted(t, x.answers).open(t.Context()); err == nil || !strings.Contains(err.Error(), x.says) {
				t.Errorf("%v, want an error with %s", err, x.says)
			}
		})
	}
}

// TestAnErrorOfBeanstalkdEndsAClaim at any command.
func TestAnErrorOfBeanstalkdEndsAClaim(t *testing.T) {
	t.Parallel()
	whole := map[string]string{
		"use wakecall-import": "USING wakecall-import",
		"list-tubes":          okYAML("---\n- default\n- wakecall-import\n- mail\n"),
		"watch mail":          "WATCHING 2", "reserve-with-timeout 0": "RESERVED 5 2\r\nhi",
		"stats-job 5": okYAML("---\nid: 5\ntube: \"mail\"\nstate: reserved\npri: 7\nttr: 60\n"), "put": "INSERTED 9",
		"release 5 7 4000000000": "RELEASED", "delete 9": "DELETED",
	}
	claim := func(t *testing.T, command, answer string) ([]importer.Job, error) {
		answers := map[string]string{}
		maps.Copy(answers, whole)
		if command != "" {
			answers[command] = answer
		}
		b := scripted(t, answers)
		if err := b.open(t.Context()); err != nil {
			t.Fatal(err)
		}
		return b.Claim(context.Background(), 1)
	}
	jobs, err := claim(t, "", "")
	if err != nil || len(jobs) != 1 {
		t.Fatalf("%+v, %v", jobs, err)
	}
	if p := jobs[0].Push; p.Topic != topicOf("mail") || p.ID != "5" || string(p.Body) != "hi" {
		t.Errorf("claimed %+v", p)
	}
	for _, command := range []string{
		"list-tubes", "reserve-with-timeout 0", "stats-job 5", "put", "release 5 7 4000000000",
	} {
		if jobs, err := claim(t, command, "hang up"); err == nil || len(jobs) > 0 {
			t.Errorf("%s without an answer: %+v, %v", command, jobs, err)
		}
	}
	for command, answer := range map[string]string{
		"list-tubes": "INTERNAL_ERROR", "put": "JOB_TOO_BIG", "delete 9": "OUT_OF_MEMORY",
	} {
		if command == "delete 9" { // of the list of a claim without jobs
			whole["release 5 7 4000000000"] = "NOT_FOUND"
		}
		if jobs, err := claim(t, command, answer); err == nil || !strings.Contains(err.Error(), answer) ||
			len(jobs) > 0 {
			t.Errorf("%s: %+v, %v", command, jobs, err)
		}
		whole["release 5 7 4000000000"] = "RELEASED"
	}
}

// TestAListThatIsNoneEndsAnImport: another program uses the importer's tube for its own jobs.
func TestAListThatIsNoneEndsAnImport(t *testing.T) {
	t.Parallel()
	b := scripted(t, map[string]string{
		"use wakecall-import": "USING wakecall-import", "watch wakecall-import": "WATCHING 2",
		"ignore default": "WATCHING 1", "reserve-with-timeout 0": "RESERVED 5 2\r\nhi",
		"stats-tube wakecall-import": okYAML("---\ncurrent-using: 2\n"),
	})
	if err := b.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Lock(t.Context()); !errors.Is(err, importer.ErrLocked) {
		t.Errorf("a tube that two use: %v", err)
	}
	_, err := b.Left(t.Context())
	if err == nil || !strings.Contains(err.Error(), "job 5 in tube wakecall-import is not from") {
		t.Errorf("%v", err)
	}
}

func TestNobodyAnswersAtAnAddress(t *testing.T) {
	t.Parallel()
	b := &source{addr: "127.0.0.1:1"}
	if err := b.open(t.Context()); err == nil || !strings.Contains(err.Error(), "connect to beanstalkd: ") {
		t.Errorf("%v", err)
	}
}

// TestADelayOfBeanstalkdIsCountedByRedis: beanstalkd reports the remaining delay, so the clock of the import's host
// must not matter; otherwise a slow clock would make a job early.
func TestADelayOfBeanstalkdIsCountedByRedis(t *testing.T) {
	t.Parallel()
	b := &source{}
	p := b.job(1, claim{ID: 7, Due: time.Now().Add(time.Hour).UnixMilli()}, nil).Push
	if !p.DueAt.IsZero() || p.Delay <= 59*time.Minute || p.Delay > time.Hour {
		t.Errorf("delayed: %+v", p)
	}
	if p := b.job(1, claim{ID: 7}, nil).Push; !p.DueAt.IsZero() || p.Delay != 0 {
		t.Errorf("ready: %+v", p)
	}
}
