package timer

import "time"

// An alarm rings once after the duration it was last set to. It may also ring for an earlier setting.
type alarm struct {
	rings <-chan time.Time
	set   func(time.Duration)
	stop  func()
}

func runtimeAlarm() alarm {
	t := time.NewTimer(0)
	return alarm{rings: t.C, set: func(d time.Duration) { t.Reset(d) }, stop: func() { t.Stop() }}
}
