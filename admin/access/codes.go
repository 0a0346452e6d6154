package access

import (
	"strings"
	"sync"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/totp"
)

// codes accepts each code of a second factor only once, so a code that somebody watched being typed is worthless. It
// limits wrong codes by user only: whoever gets this far has the password, and may use any number of addresses.
type codes struct {
	now func() time.Time

	mu    sync.Mutex
	last  map[string]int64 // by user: the time step of the last code
	wrong map[string]wrongCodes
}

// wrongCodes are the wrong codes of a user since the last right one.
type wrongCodes struct {
	count int
	until time.Time // when they no longer count
}

const (
	codeStep   = 30 // seconds
	codeTries  = 5
	codeWindow = 15 * time.Minute
)

func newCodes(now func() time.Time) *codes {
	return &codes{now: now, last: map[string]int64{}, wrong: map[string]wrongCodes{}}
}

// use reports whether the code is right and unused or, after too many wrong ones, how long the user must wait.
func (u *codes) use(user, code, secret string) (ok bool, wait time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now, w := u.now(), u.wrong[user]
	if !now.Before(w.until) {
		w = wrongCodes{until: now.Add(codeWindow)}
	}
	if w.count >= codeTries {
		return false, w.until.Sub(now)
	}
	if step, ok := stepOf(strings.ReplaceAll(code, " ", ""), secret, now); ok && step > u.last[user] {
		u.last[user] = step
		delete(u.wrong, user)
		return true, 0
	}
	w.count++
	u.wrong[user] = w
	return false, 0
}

// stepOf returns the time step of a right code. Clocks may differ by one step.
func stepOf(code, secret string, now time.Time) (step int64, ok bool) {
	for _, skew := range []int64{0, -1, 1} {
		step := now.Unix()/codeStep + skew
		at := time.Unix(step*codeStep, 0)
		ok, err := totp.ValidateCustom(code, secret, at,
			totp.ValidateOpts{Period: codeStep, Digits: otp.DigitsSix, Algorithm: otp.AlgorithmSHA1})
		if err == nil && ok {
			return step, true
		}
	}
	return 0, false
}
