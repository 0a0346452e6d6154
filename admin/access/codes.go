package access

import (
	"strings"
	"sync"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/totp"
)

// codes accepts each code of a second factor only once, so that a code seen while it was typed is worthless.
type codes struct {
	now func() time.Time

	mu   sync.Mutex
	last map[string]int64 // by user: the time step of the last code
}

const codeStep = 30 // seconds

// use reports whether the code is right and unused. Clocks may differ by one step.
func (u *codes) use(user, code, secret string) bool {
	code = strings.ReplaceAll(code, " ", "")
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.now()
	for _, skew := range []int64{0, -1, 1} {
		step := now.Unix()/codeStep + skew
		at := time.Unix(step*codeStep, 0)
		ok, err := totp.ValidateCustom(code, secret, at,
			totp.ValidateOpts{Period: codeStep, Digits: otp.DigitsSix, Algorithm: otp.AlgorithmSHA1})
		if err != nil || !ok {
			continue
		}
		if step <= u.last[user] {
			return false
		}
		u.last[user] = step
		return true
	}
	return false
}
