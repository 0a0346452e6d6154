package admin

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"
)

func TestSecondFactor(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	s.as("ops")
	_, body := s.post("/account/totp/begin")
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
	if status, _ := s.post("/account/totp/finish", "code", "000000"); status != http.StatusUnprocessableEntity {
		t.Errorf("a wrong code got %d", status)
	}
	if status, body := s.post("/account/totp/finish", "code", code(now.Add(-25*time.Second))); status != http.StatusOK ||
		!strings.Contains(body, "alert-success") {
		t.Fatalf("got %d\n%s", status, body)
	}
	s.post("/account/totp/begin")
	if status, _ := s.post("/account/totp/finish", "code", "000000"); status != http.StatusConflict {
		t.Errorf("replacing a second factor without the password got %d", status)
	}
	s.client = newClient()
	_, body = s.post("/login", "username", "ops", "password", password)
	if !strings.Contains(body, `name="code"`) {
		t.Fatalf("the code is not requested:\n%s", body)
	}
	if _, body := s.get("/topics"); !strings.Contains(body, `name="password"`) {
		t.Error("the password alone was enough to sign in")
	}
	if status, _ := s.post("/login/code", "code", "000000"); status != http.StatusUnauthorized {
		t.Errorf("a wrong code got %d", status)
	}
	if status, body := s.post("/login/code", "code", code(now.Add(25*time.Second)), "next",
		"/topics"); status != http.StatusOK || !strings.Contains(body, "/logout") {
		t.Fatalf("got %d\n%s", status, body)
	}
}
