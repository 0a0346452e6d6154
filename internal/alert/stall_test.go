package alert

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/registry/seal"
	"github.com/wakecall/wakecall/test/smtptest"
	"github.com/wakecall/wakecall/test/wait"
)

func stalledMail(s *smtptest.Stalled, step string) Mail {
	m := Mail{Host: s.Host, Port: s.Port, TLS: TLSNone, From: "w@test.example", Username: "ops", Password: seal.Text("hush")}
	switch step {
	case "STARTTLS", "handshake":
		m.TLS = TLSStart
	case "TLS":
		m.TLS = TLSDirect
	}
	return m
}

// stalls are the steps at which a server can hang. A server that never greets does not answer the handshake of direct
// TLS either.
var stalls = append([]string{"TLS"}, smtptest.Steps...)

// accepted reports whether the server had accepted the mail before it stalled.
func accepted(step string) bool { return step == "QUIT" }

// TestAMailEndsAtEveryStepOfAServerThatStalls: whether the server hangs, or sends a byte now and then, a mail has failed
// after three times sendTimeout, and its connection is closed. It is not parallel, because it shortens sendTimeout.
func TestAMailEndsAtEveryStepOfAServerThatStalls(t *testing.T) {
	was := sendTimeout
	sendTimeout = 2 * time.Second
	defer func() { sendTimeout = was }()
	m := testMessage(t)
	var all sync.WaitGroup // all at once, on however few cores
	for _, step := range stalls {
		for way, pause := range map[string]time.Duration{"hangs": 0, "drips": sendTimeout / 5} {
			s := smtptest.Stall(t, at(step), pause)
			all.Go(func() {
				began := time.Now()
				err := SendMail(t.Context(), stalledMail(s, step), "ops@test.example", m)
				if took := time.Since(began); (err == nil) != accepted(step) || took > 3*sendTimeout+wait.Limit/4 {
					t.Errorf("%s %s, after %s: %v", step, way, took, err)
				}
				closed(t, s.Reached, "the server to be at the step "+step)
				closed(t, s.Left, "the connection to be closed at the step "+step)
			})
		}
	}
	all.Wait()
}

func at(step string) string {
	if step == "TLS" {
		return "greeting"
	}
	return step
}

func closed(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(wait.Limit):
		t.Errorf("waited %s for: %s", wait.Limit, what)
	}
}

// TestAMailIsCanceledAtEveryStep: a process that stops does not wait for a server. A mail that the server has accepted
// was sent.
func TestAMailIsCanceledAtEveryStep(t *testing.T) {
	t.Parallel()
	for _, step := range stalls {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			s := smtptest.Stall(t, at(step), 0)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- SendMail(ctx, stalledMail(s, step), "ops@test.example", testMessage(t)) }()
			closed(t, s.Reached, "the server to be at the step")
			cancel()
			began := time.Now()
			err := <-ended
			if took := time.Since(began); took > sendTimeout/2 || !accepted(step) && !errors.Is(err, context.Canceled) ||
				accepted(step) && err != nil {
				t.Errorf("after %s: %v", took, err)
			}
			closed(t, s.Left, "the connection to be closed")
		})
	}
}

// TestAMailIsCanceledWhileItConnects: the server's queue of connections is full.
func TestAMailIsCanceledWhileItConnects(t *testing.T) {
	t.Parallel()
	m := Mail{Host: "127.0.0.1", Port: full(t), From: "w@test.example"}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	began := time.Now()
	err := SendMail(ctx, m, "ops@test.example", testMessage(t))
	if took := time.Since(began); !errors.Is(err, context.Canceled) || took > sendTimeout/2 {
		t.Errorf("after %s: %v", took, err)
	}
}

// full returns a port to which no further connection is made and none is refused.
func full(t *testing.T) (port int) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	err = errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(fd, 0))
	at, nameErr := syscall.Getsockname(fd)
	if err := errors.Join(err, nameErr); err != nil {
		t.Fatal(err)
	}
	port = at.(*syscall.SockaddrInet4).Port
	for range 5 {
		c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), 200*time.Millisecond)
		if err != nil {
			return port
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	t.Fatal("the queue is never full")
	return 0
}

// TestAMailIsCanceledWhileItsServersNameIsLookedUp. It is not parallel, because it replaces the resolver.
func TestAMailIsCanceledWhileItsServersNameIsLookedUp(t *testing.T) {
	was := net.DefaultResolver
	defer func() { net.DefaultResolver = was }()
	asked := make(chan struct{}, 10)
	net.DefaultResolver = &net.Resolver{
		PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			asked <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		},
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		m := Mail{Host: "mail.example", Port: 25, From: "w@test.example"}
		ended <- SendMail(ctx, m, "ops@test.example", testMessage(t))
	}()
	<-asked
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(sendTimeout / 2):
		t.Error("it still looks up the name")
	}
}

// TestAMailThatWasAcceptedIsNotSentAgain although the process is stopped while the server hangs at QUIT.
func TestAMailThatWasAcceptedIsNotSentAgain(t *testing.T) {
	t.Parallel()
	s, store := smtptest.Stall(t, "QUIT", 0), newStore(t)
	settings := Defaults()
	settings.Mail, settings.GroupWait = stalledMail(s, "QUIT"), 0
	settings.Recipients = []Recipient{{Address: "ops@test.example"}}
	h := play(t, "h1", store, settings)
	h.wrong(down)
	closed(t, s.Reached, "the server to accept the mail")
	h.stop()
	list, err := store.ListDeliveries(t.Context(), 10)
	if err != nil || len(list) != 1 || list[0].State != Sent {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestARecipientWhoseMailHangsHoldsUpNoOther: some servers delay what they suspect, recipient by recipient.
func TestARecipientWhoseMailHangsHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	smtp := smtptest.Start(t)
	smtp.HangFor("ops0@test.example")
	s := mailTo(smtp, "ops0@test.example", "ops1@test.example", "ops2@test.example")
	h := play(t, "h1", newStore(t), s)
	h.wrong(down)
	eventually(t, "the mails to the others", func() bool {
		return len(smtp.Mails()) == 2 && !slices.ContainsFunc(smtp.Mails(), func(m smtptest.Mail) bool {
			return m.To == "ops0@test.example"
		})
	})
	h.wrong(down, Finding{Shard: "b", Cause: down.Cause})
	eventually(t, "the next mails to the others", func() bool { return len(smtp.Mails()) >= 4 })
	h.a.outbox.mu.Lock()
	defer h.a.outbox.mu.Unlock()
	for _, d := range h.a.outbox.pending {
		if d.Recipient == "ops0@test.example" && d.Tries > 0 {
			t.Error("the others had to wait until a mail has failed")
		}
	}
}
