package access

import (
	"testing"
	"time"

	"github.com/pquerna/otp/totp"
)

func TestACodeWorksOnce(t *testing.T) {
	t.Parallel()
	now := time.Now()
	u := &codes{now: func() time.Time { return now }, last: map[string]int64{}}
	secret, err := newTOTP("ops")
	if err != nil {
		t.Fatal(err)
	}
	code, err := totp.GenerateCode(secret, now)
	if err != nil {
		t.Fatal(err)
	}
	if !u.use("ops", code, secret) || u.use("ops", code, secret) {
		t.Error("a code does not work once")
	}
	if u.use("look", "", secret) || u.use("look", "12345x", secret) {
		t.Error("nonsense works")
	}
}
