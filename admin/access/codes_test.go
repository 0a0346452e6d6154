package access

import (
	"testing"
	"time"

	"github.com/pquerna/otp/totp"
)

func TestACodeWorksOnce(t *testing.T) {
	t.Parallel()
	now := time.Now()
	u := newCodes(func() time.Time { return now })
	secret, err := newTOTP("ops")
	if err != nil {
		t.Fatal(err)
	}
	code, err := totp.GenerateCode(secret, now)
	if err != nil {
		t.Fatal(err)
	}
	works := func(user, code string) bool {
		ok, _ := u.use(user, code, secret)
		return ok
	}
	if !works("ops", code) || works("ops", code) {
		t.Error("a code does not work once")
	}
	if works("look", "") || works("look", "12345x") {
		t.Error("nonsense works")
	}
}

// TestWrongCodesWait, whoever sends them, until the first one is a quarter of an hour old. A right one starts anew.
func TestWrongCodesWait(t *testing.T) {
	t.Parallel()
	now := time.Now()
	u := newCodes(func() time.Time { return now })
	secret, err := newTOTP("ops")
	if err != nil {
		t.Fatal(err)
	}
	use := func(right bool) (ok bool, wait time.Duration) {
		code := "wrong!"
		if right {
			if code, err = totp.GenerateCode(secret, now); err != nil {
				t.Fatal(err)
			}
		}
		return u.use("ops", code, secret)
	}
	for range codeTries - 1 {
		use(false)
	}
	if ok, _ := use(true); !ok {
		t.Fatal("the right code after four wrong ones is refused")
	}
	for range codeTries {
		if ok, wait := use(false); ok || wait > 0 {
			t.Fatalf("a wrong code: %v, wait %s", ok, wait)
		}
	}
	now = now.Add(codeWindow - time.Second)
	if ok, wait := use(true); ok || wait != time.Second {
		t.Errorf("after five wrong codes: %v, wait %s", ok, wait)
	}
	now = now.Add(time.Second)
	if ok, wait := use(true); !ok || wait > 0 {
		t.Errorf("later: %v, wait %s", ok, wait)
	}
}
