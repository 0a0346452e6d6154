package access

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

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
