package access_test

import (
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
)

func TestSecondFactor(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil)
	s.As("ops")
	_, body := s.Post("/account/totp/begin")
	found := regexp.MustCompile(`id="totp-secret">([A-Z2-7]+)<`).FindStringSubmatch(body)
	if found == nil || !strings.Contains(body, `src="data:image/png;base64,`) {
		t.Fatalf("there is no secret to scan:\n%s", body)
	}
	code := func(at time.Time) string {
		text, err := totp.GenerateCode(found[1], at)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	now := time.Now()
	if status, _ := s.Post("/account/totp/finish", "code", "000000"); status != http.StatusUnprocessableEntity {
		t.Errorf("a wrong code got %d", status)
	}
	if status, body := s.Post("/account/totp/finish", "code",
		code(now.Add(-25*time.Second))); status != http.StatusOK ||
		!strings.Contains(body, "alert-success") {
		t.Fatalf("got %d\n%s", status, body)
	}
	s.Post("/account/totp/begin")
	if status, _ := s.Post("/account/totp/finish", "code", "000000"); status != http.StatusConflict {
		t.Errorf("replacing a second factor without the password got %d", status)
	}
	s.Client = admintest.NewClient()
	_, body = s.Post("/login", "username", "ops", "password", admintest.Password)
	if !strings.Contains(body, `name="code"`) {
		t.Fatalf("the code is not requested:\n%s", body)
	}
	if _, body := s.Get("/topics"); !strings.Contains(body, `name="password"`) {
		t.Error("the password alone was enough to sign in")
	}
	if status, _ := s.Post("/login/code", "code", "000000"); status != http.StatusUnauthorized {
		t.Errorf("a wrong code got %d", status)
	}
	if status, body := s.Post("/login/code", "code", code(now.Add(25*time.Second)), "next",
		"/topics"); status != http.StatusOK || !strings.Contains(body, "/logout") {
		t.Fatalf("got %d\n%s", status, body)
	}
}

// withFactor signs in and sets up a second factor.
func withFactor(s *admintest.Site, name string) *admintest.Site {
	s.Helper()
	_, body := s.As(name).Post("/account/totp/begin")
	found := regexp.MustCompile(`id="totp-secret">([A-Z2-7]+)<`).FindStringSubmatch(body)
	if found == nil {
		s.Fatalf("there is no secret to scan:\n%s", body)
	}
	code, err := totp.GenerateCode(found[1], time.Now())
	admintest.Must(s, err)
	if status, body := s.Post("/account/totp/finish", "code", code); status != http.StatusOK || !asksForCode(s, name) {
		s.Fatalf("got %d\n%s", status, body)
	}
	return s
}

// asksForCode reports whether the password alone is not enough to sign in.
func asksForCode(s *admintest.Site, name string) bool {
	s.Helper()
	secret, err := s.Registry.TOTPSecret(s.Context(), name)
	admintest.Must(s, err)
	return secret != ""
}

// TestWrongCodesFromManyAddressesWait: the password alone, which they know, is not enough to guess the code.
func TestWrongCodesFromManyAddressesWait(t *testing.T) {
	t.Parallel()
	_, loopback, err := net.ParseCIDR("127.0.0.0/8")
	admintest.Must(t, err)
	s := admintest.Open(t, func(o *admin.Options) { o.Proxies = []*net.IPNet{loopback} })
	admintest.Must(t, s.Registry.SetTOTP(t.Context(), "test", "ops", "JBSWY3DPEHPK3PXP"))
	guesses := 0
	for n := range 20 {
		s.Client = admintest.NewClient()
		s.Client.Transport = fromAddress(fmt.Sprintf("203.0.113.%d", n))
		s.Post("/login", "username", "ops", "password", admintest.Password)
		if status, _ := s.Post("/login/code", "code", "000000"); status == http.StatusUnauthorized {
			guesses++
		}
	}
	if guesses != 5 {
		t.Errorf("%d codes were tried from 20 addresses", guesses)
	}
}

// TestASecondFactorIsRemovedByThePassword, or by an admin: access to an open browser is not enough.
func TestASecondFactorIsRemovedByThePassword(t *testing.T) {
	t.Parallel()
	s := withFactor(admintest.Open(t, nil), "ops")
	for _, current := range []string{"", "wrong password"} {
		status, body := s.Post("/account/totp/clear", "current", current)
		if status != http.StatusUnprocessableEntity || !strings.Contains(body, "invalid-feedback") ||
			!asksForCode(s, "ops") {
			t.Errorf("the password %q: %d", current, status)
		}
	}
	if status, body := s.Post("/account/totp/clear", "current", admintest.Password); status != http.StatusOK ||
		!strings.Contains(body, "alert-success") || asksForCode(s, "ops") {
		t.Errorf("the password: %d", status)
	}
	admintest.Must(t, s.Registry.SetTOTP(t.Context(), "test", "ops", "JBSWY3DPEHPK3PXP"))
	s.As("root")
	if status, body := s.Post("/access/users/ops/totp"); status != http.StatusOK ||
		!strings.Contains(body, "alert-success") || asksForCode(s, "ops") {
		t.Errorf("an admin: %d", status)
	}
	admintest.Must(t, s.Registry.SetTOTP(t.Context(), "test", "root", "JBSWY3DPEHPK3PXP"))
	for _, own := range []string{"totp", "password"} { // without the current password
		_, body := s.Post("/access/users/root/"+own, "password", "another horse")
		if !strings.Contains(body, "alert-danger") || !asksForCode(s, "root") {
			t.Errorf("an admin's own %s is changed without the current password", own)
		}
	}
	if _, body := s.Post("/access/users/none/totp"); !strings.Contains(body, "alert-danger") {
		t.Errorf("of an unknown user:\n%s", body)
	}
}

// TestAResetEndsASignInThatWaitsForItsCode: an attacker who knew the old password, and has yet to enter the code, must
// start again.
func TestAResetEndsASignInThatWaitsForItsCode(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil)
	const secret = "JBSWY3DPEHPK3PXP"
	if err := s.Registry.SetTOTP(t.Context(), "test", "ops", secret); err != nil {
		t.Fatal(err)
	}
	if _, body := s.Post("/login", "username", "ops", "password",
		admintest.Password); !regexp.MustCompile(`name="code"`).MatchString(body) {
		t.Fatalf("the code is not requested:\n%s", body)
	}
	waiting := s.Client
	s.As("root").Post("/access/users/ops/password", "password", "another horse")
	s.Client = waiting
	code, err := totp.GenerateCode(secret, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if status, body := s.Post("/login/code", "code", code); status != http.StatusOK ||
		!strings.Contains(body, `name="password"`) {
		t.Errorf("the code is still accepted: %d", status)
	}
	if _, body := s.Get("/account"); strings.Contains(body, "/logout") {
		t.Error("the sign-in with the old password succeeded")
	}
}
