package access

import (
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
