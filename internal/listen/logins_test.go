package listen

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestLoginLimit(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := NewLoginLimit(func() time.Time { return now })
	for range pairTries {
		if wait := l.Try("root", "10.0.0.1", ""); wait > 0 {
			t.Fatalf("an early attempt waits %s", wait)
		}
	}
	if l.Try("root", "10.0.0.1", "") == 0 {
		t.Error("an account is not limited from one address")
	}
	if l.Try("ops", "10.0.0.1", "") > 0 {
		t.Error("another account waits, too")
	}
	now = now.Add(loginWindow)
	if l.Try("root", "10.0.0.1", "") > 0 {
		t.Error("the limit does not end")
	}
	for n := range addressTries {
		l.Try(fmt.Sprint("user", n), "10.0.0.9", "")
	}
	if l.Try("new", "10.0.0.9", "") == 0 {
		t.Error("the address is not limited over accounts")
	}
}

// TestGuessersKeepNobodyOut: while one address guesses, the user can sign in from any other; while many guess, from the
// address of the last sign-in.
func TestGuessersKeepNobodyOut(t *testing.T) {
	t.Parallel()
	l := NewLoginLimit(time.Now)
	for range 2 * pairTries {
		l.Try("root", "203.0.113.1", "10.0.0.1")
	}
	if wait := l.Try("root", "10.0.0.2", "10.0.0.1"); wait > 0 {
		t.Errorf("from another address than the guesser's the owner waits %s", wait)
	}
	for n := range accountTries {
		l.Try("root", fmt.Sprintf("2001:db8:%x::1", n), "10.0.0.1")
	}
	if l.Try("root", "2001:db8:ffff::1", "10.0.0.1") == 0 {
		t.Error("many addresses guess without a limit")
	}
	if wait := l.Try("root", "10.0.0.1", "10.0.0.1"); wait > 0 {
		t.Errorf("from where they last signed in the owner waits %s", wait)
	}
	for range pairTries {
		l.Try("root", "10.0.0.1", "10.0.0.1")
	}
	if l.Try("root", "10.0.0.1", "10.0.0.1") == 0 {
		t.Error("from where the owner last signed in guesses have no limit")
	}
}

func TestALimitRemembersLittle(t *testing.T) {
	t.Parallel()
	l := NewLoginLimit(time.Now)
	l.Try("root", "10.0.0.1", "")
	l.Try(strings.Repeat("x\n", 1<<20), "10.0.0.1", "")
	kept := 0
	for _, key := range l.tries.Keys() {
		kept += len(key)
	}
	if kept > 1000 {
		t.Errorf("%d bytes are stored for two names", kept)
	}
}

func TestALimitIsOfTheNetwork(t *testing.T) {
	t.Parallel()
	l := NewLoginLimit(time.Now)
	for n := range addressTries {
		l.Try(fmt.Sprint("user", n), fmt.Sprintf("2001:db8:1:2:%x::%x", n, n), "")
	}
	if l.Try("another", "2001:db8:1:2:ffff::1", "") == 0 {
		t.Error("another address of the same network has its own attempts")
	}
	if l.Try("another", "2001:db8:1:3::1", "") > 0 || l.Try("another", "::ffff:10.0.0.1", "") > 0 {
		t.Error("another network waits, too")
	}
}
