package timer

import (
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/wait"
)

func TestTheKernelsAlarmRingsAtTheTimeLastSet(t *testing.T) {
	a, err := kernelAlarm()
	if err != nil {
		t.Fatal(err)
	}
	defer a.stop()
	<-a.rings // immediately
	for _, d := range []time.Duration{3 * time.Millisecond, 700 * time.Microsecond, 0, -time.Second,
		20 * time.Millisecond} {
		a.set(time.Hour)
		start := time.Now()
		a.set(d)
		select {
		case <-a.rings:
		case <-time.After(wait.Limit):
			t.Fatalf("set to %v, it has not rung after %v", d, time.Since(start))
		}
		if took := time.Since(start); took < d {
			t.Errorf("set to %v, it rang after %v", d, took)
		}
	}
}

func TestTheKernelsAlarmRingsOnceOnly(t *testing.T) {
	a, err := kernelAlarm()
	if err != nil {
		t.Fatal(err)
	}
	defer a.stop()
	<-a.rings
	select {
	case <-a.rings:
		t.Error("it rang again without being set")
	case <-time.After(20 * time.Millisecond):
	}
}
