package access

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestLoginLimit(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := newLoginLimit(func() time.Time { return now })
	for range accountTries {
		if wait := l.try("root", "10.0.0.1"); wait > 0 {
			t.Fatalf("an early try waits %s", wait)
		}
	}
	if l.try("root", "10.0.0.2") == 0 {
		t.Error("the account is not limited over addresses")
	}
	if l.try("ops", "10.0.0.1") > 0 {
		t.Error("another account waits, too")
	}
	now = now.Add(loginWindow)
	if l.try("root", "10.0.0.1") > 0 {
		t.Error("the limit does not end")
	}
	for range addressTries {
		l.try(time.Now().String(), "10.0.0.9")
	}
	if l.try("new", "10.0.0.9") == 0 {
		t.Error("the address is not limited over accounts")
	}
}

func TestALimitRemembersLittle(t *testing.T) {
	t.Parallel()
	l := newLoginLimit(time.Now)
	l.try(typedName("root "), "10.0.0.1")
	l.try(typedName(strings.Repeat("x\n", 1<<20)), "10.0.0.1")
	kept := 0
	for key := range l.tries {
		kept += len(key)
	}
	if kept > 1000 {
		t.Errorf("%d bytes are remembered of two names", kept)
	}
}

func TestALimitIsOfTheNetwork(t *testing.T) {
	t.Parallel()
	l := newLoginLimit(time.Now)
	for n := range addressTries {
		l.try(fmt.Sprint("user", n), fmt.Sprintf("2001:db8:1:2:%x::%x", n, n))
	}
	if l.try("another", "2001:db8:1:2:ffff::1") == 0 {
		t.Error("another address of the same network has tries of its own")
	}
	if l.try("another", "2001:db8:1:3::1") > 0 || l.try("another", "::ffff:10.0.0.1") > 0 {
		t.Error("another network waits, too")
	}
}
