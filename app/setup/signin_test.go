package setup

import (
	"strings"
	"testing"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/test/oidctest"
)

// TestTheCheckTriesTheIdentityProvider, which is no failure when it is down: local users can sign in.
func TestTheCheckTriesTheIdentityProvider(t *testing.T) {
	p := oidctest.Start(t)
	cfg := conf.Default()
	if got := checkSignIn(t.Context(), cfg); got != nil {
		t.Errorf("without a provider: %v", got)
	}
	cfg.Admin.OIDC.Issuer, cfg.Admin.PublicURL = p.URL, "https://wakecall.example.com/queue/"
	got := checkSignIn(t.Context(), cfg)
	if len(got) != 1 || got[0].Verdict != Good ||
		!strings.Contains(got[0].Detail, "https://wakecall.example.com/queue/login/oidc/callback") {
		t.Errorf("got %v", got)
	}
	p.SetDown(true)
	if got := checkSignIn(t.Context(), cfg); len(got) != 1 || got[0].Verdict != Warning {
		t.Errorf("while it is down: %v", got)
	}
	cfg.Admin.OIDC.CAFile = "/nowhere.pem"
	if got := checkSignIn(t.Context(), cfg); len(got) != 1 || got[0].Verdict != Failed {
		t.Errorf("without its certificates: %v", got)
	}
}
