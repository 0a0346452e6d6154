package access_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/signin"
	"github.com/wakecall/wakecall/test/oidctest"
)

type claims = map[string]any

// openOIDC serves an admin with an identity provider. Its users' browsers follow no redirects by themselves.
func openOIDC(t *testing.T, p *oidctest.Provider, change func(*signin.Options)) *admintest.Site {
	t.Helper()
	o := signin.Options{
		Name: "Example SSO", Issuer: p.URL, ClientID: oidctest.ClientID, ClientSecret: oidctest.ClientSecret,
		Scopes: []string{"openid", "profile"}, GroupsClaim: "groups", Now: time.Now,
		Roles: map[account.Role][]string{
			account.RoleAdmin: {"wakecall-admins"}, account.RoleOperator: {"on call", "wakecall-ops"},
		},
	}
	if change != nil {
		change(&o)
	}
	provider, err := signin.New(o)
	admintest.Must(t, err)
	t.Cleanup(provider.Close)
	s := admintest.Open(t, func(o *admin.Options) { o.SignIn, o.BasePath = provider, "/wakecall" })
	provider.RedirectURL = s.URL + signin.CallbackPath
	return s
}

// enter signs in by the provider with a new browser.
func enter(s *admintest.Site) (status int, body string) {
	s.Helper()
	s.Client = admintest.NewClient()
	return s.Get("/login/oidc?next=" + url.QueryEscape("/wakecall/account"))
}

// callback returns the address to which the provider sends a new browser back, which has not opened it.
func callback(s *admintest.Site) (path string) {
	s.Helper()
	s.Client = admintest.NewClient()
	var back *url.URL
	s.Client.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if strings.HasSuffix(r.URL.Path, signin.CallbackPath) {
			back = r.URL
			return http.ErrUseLastResponse
		}
		return nil
	}
	s.Get("/login/oidc")
	s.Client.CheckRedirect = nil
	if back == nil {
		s.Fatal("the provider did not send the browser back")
	}
	return signin.CallbackPath + "?" + back.RawQuery
}

// outside requires that the browser is not signed in.
func outside(s *admintest.Site) {
	s.Helper()
	if _, body := s.Get("/account"); !strings.Contains(body, `name="password"`) || strings.Contains(body, "/logout") {
		s.Errorf("the browser is signed in:\n%s", body)
	}
}

func TestSignInByTheProvider(t *testing.T) {
	t.Parallel()
	p := oidctest.Start(t)
	s := openOIDC(t, p, nil)
	s.Shows("/login", "Sign in with Example SSO", `name="password"`)
	p.SignIn(claims{"sub": "1", "preferred_username": "alice@example.com", "groups": []string{"staff", "on call"}})
	status, body := enter(s)
	if status != http.StatusOK || !strings.Contains(body, "oidc:alice@example.com · operator") ||
		strings.Contains(body, `name="current"`) {
		t.Fatalf("alice's account: %d\n%s", status, body)
	}
	if status, _ := s.Get("/access"); status != http.StatusForbidden {
		t.Errorf("an operator's access page is %d", status)
	}
	s.AddTopic("shop.close")
	s.Post("/topics/shop.close/pause", "reason", "test")
	trail, err := s.Registry.Audit(t.Context(), registry.AuditFilter{Actor: "user/oidc:alice@example.com"})
	if err != nil || len(trail) < 2 || trail[0].Object != "topic/shop.close" || trail[len(trail)-1].Action != "create" {
		t.Errorf("the audit trail has %d entries, %v", len(trail), err)
	}

	p.SignIn(claims{"sub": "1", "preferred_username": "renamed", "groups": "wakecall-admins"})
	if _, body := enter(s); !strings.Contains(body, "oidc:alice@example.com · admin") {
		t.Errorf("with another name and group:\n%s", body)
	}
	s.Shows("/access", "Users of Example SSO", "oidc:alice@example.com", "wakecall-admins", "Only admins can edit topics")
	s.Shows("/audit", "set role")
}

// TestTwoPeopleOfOneNameAreTwoUsers: issuer and subject identify a person, not the name.
func TestTwoPeopleOfOneNameAreTwoUsers(t *testing.T) {
	t.Parallel()
	p := oidctest.Start(t)
	s := openOIDC(t, p, nil)
	for sub, name := range map[string]string{"1": "bob", "2": "bob"} {
		p.SignIn(claims{"sub": sub, "preferred_username": name, "groups": []string{"wakecall-admins"}})
		enter(s)
	}
	users, err := s.Registry.ListProviderUsers(t.Context(), p.URL)
	if err != nil || len(users) != 2 || users[0].Name != "oidc:bob" || !strings.HasPrefix(users[1].Name, "oidc:bob~") {
		t.Errorf("the users are %+v, %v", users, err)
	}
}

// viewersBy makes those viewers whose claim has a value.
func viewersBy(claim, value string) func(*signin.Options) {
	return func(o *signin.Options) { o.GroupsClaim, o.Roles[account.RoleViewer] = claim, []string{value} }
}

func TestNamesAndGroupsOfOtherClaims(t *testing.T) {
	t.Parallel()
	p := oidctest.Start(t)
	for name, c := range map[string]struct {
		change   func(*signin.Options)
		claims   claims
		userinfo claims
		want     string
	}{
		"email": {nil, claims{"email": "a@example.com", "groups": "on call"}, nil, "oidc:a@example.com · operator"},
		"hosted domain": {viewersBy("hd", "example.com"),
			claims{"email": "a@example.com", "hd": "example.com"}, nil, "oidc:a@example.com · viewer"},
		"people": {viewersBy("email", "a@example.com"),
			claims{"email": "a@example.com", "email_verified": true}, nil, "oidc:a@example.com · viewer"},
		"people, not verified": {viewersBy("email", "a@example.com"),
			claims{"email": "a@example.com"}, claims{"sub": "1"}, "No access"},
		"own claim": {func(o *signin.Options) { o.UsernameClaim = "login" },
			claims{"login": "al", "preferred_username": "x", "groups": "on call"}, nil, "oidc:al · operator"},
		"userinfo": {nil, claims{}, claims{"sub": "1", "preferred_username": "al", "groups": []string{"on call"}},
			"oidc:al · operator"},
		"userinfo of another": {nil, claims{}, claims{"sub": "2", "groups": []string{"wakecall-admins"}},
			"could not be verified"},
		"no name": {nil, claims{"groups": "on call"}, claims{"sub": "1"}, "oidc:1 · operator"},
		"too many groups": {nil, claims{"_claim_names": claims{"groups": "src1"},
			"_claim_sources": claims{"src1": claims{"endpoint": p.URL}}}, claims{"sub": "1"}, "because they are too many"},
	} {
		s := openOIDC(t, p, c.change)
		c.claims["sub"] = "1"
		p.SignIn(c.claims)
		p.Userinfo(c.userinfo)
		if _, body := enter(s); !strings.Contains(body, c.want) {
			t.Errorf("%s does not show %q:\n%s", name, c.want, body)
		}
	}
}

// TestWithoutAGroupNobodyIsSignedIn: the page says which groups have which role.
func TestWithoutAGroupNobodyIsSignedIn(t *testing.T) {
	t.Parallel()
	p := oidctest.Start(t)
	s := openOIDC(t, p, nil)
	p.SignIn(claims{"sub": "1", "preferred_username": "carol<b>", "groups": []string{"staff"}})
	status, body := enter(s)
	for _, text := range []string{
		"carol&lt;b&gt;", "wakecall-admins", "on call, wakecall-ops", "staff", "Sign out at Example SSO",
	} {
		if status != http.StatusForbidden || !strings.Contains(body, text) {
			t.Errorf("%d, without %q:\n%s", status, text, body)
		}
	}
	outside(s)
	if users, err := s.Registry.ListProviderUsers(t.Context(), p.URL); err != nil || len(users) != 0 {
		t.Errorf("stored: %+v, %v", users, err)
	}
}

// TestWhatIsNotValidSignsNobodyIn, whatever is wrong with the provider's answer.
func TestWhatIsNotValidSignsNobodyIn(t *testing.T) {
	t.Parallel()
	p := oidctest.Start(t)
	good := claims{"sub": "1", "preferred_username": "alice", "groups": []string{"wakecall-admins"}}
	for name, wrong := range map[string]claims{
		"nonce": {"nonce": "another"}, "audience": {"aud": "another"}, "issuer": {"iss": "https://other.example.com"},
		"expired": {"exp": time.Now().Add(-2 * time.Minute).Unix()}, "subject": {"sub": ""},
		"authorized party": {"aud": []string{oidctest.ClientID, "another"}, "azp": "another"},
	} {
		for key, value := range good {
			if wrong[key] == nil {
				wrong[key] = value
			}
		}
		p.SignIn(wrong)
		s := openOIDC(t, p, nil) // without the failures of the others
		status, body := enter(s)
		if status != http.StatusForbidden || !strings.Contains(body, "could not be verified") {
			t.Errorf("%s: %d\n%s", name, status, body)
		}
		outside(s)
	}

	p.SignIn(good)
	for name, change := range map[string]func(url.Values){
		"state": func(q url.Values) { q.Set("state", "another") }, "no state": func(q url.Values) { q.Del("state") },
		"code": func(q url.Values) { q.Set("code", "another") }, "iss": func(q url.Values) { q.Set("iss", "https://o") },
		"error": func(q url.Values) { q.Set("error", "access_denied") },
	} {
		s := openOIDC(t, p, nil)
		path, query, _ := strings.Cut(callback(s), "?")
		q, err := url.ParseQuery(query)
		admintest.Must(t, err)
		change(q)
		if status, body := s.Get(path + "?" + q.Encode()); status < http.StatusBadRequest {
			t.Errorf("another %s: %d\n%s", name, status, body)
		}
		outside(s)
	}
}

// TestACodeIsUsedOnce, by the browser that began the sign-in.
func TestACodeIsUsedOnce(t *testing.T) {
	t.Parallel()
	p := oidctest.Start(t)
	s := openOIDC(t, p, nil)
	p.SignIn(claims{"sub": "1", "preferred_username": "alice", "groups": []string{"wakecall-admins"}})
	path := callback(s)
	victim, attacker := s.Client, admintest.NewClient()
	base, err := url.Parse(s.URL + signin.CallbackPath)
	admintest.Must(t, err)
	cookies := victim.Jar.Cookies(base)

	s.Client = attacker
	if status, body := s.Get(path); status != http.StatusBadRequest || !strings.Contains(body, "another browser") {
		t.Errorf("the address in another browser: %d\n%s", status, body)
	}
	outside(s)
	s.Client = victim
	if status, body := s.Get(path); status != http.StatusOK || !strings.Contains(body, "/logout") {
		t.Fatalf("the browser that began: %d\n%s", status, body)
	}
	s.Client = attacker
	attacker.Jar.SetCookies(base, cookies)
	if status, body := s.Get(path); status != http.StatusForbidden || !strings.Contains(body, "could not be verified") {
		t.Errorf("a replay with the browser's cookie: %d\n%s", status, body)
	}
	outside(s)
}

// TestTheProviderRotatesItsKey between two sign-ins.
func TestTheProviderRotatesItsKey(t *testing.T) {
	t.Parallel()
	p := oidctest.Start(t)
	s := openOIDC(t, p, nil)
	p.SignIn(claims{"sub": "1", "preferred_username": "alice", "groups": []string{"wakecall-admins"}})
	for range 2 {
		if status, body := enter(s); status != http.StatusOK || !strings.Contains(body, "oidc:alice") {
			t.Errorf("%d\n%s", status, body)
		}
		p.RotateKey(t)
	}
}

// TestLocalUsersSignInWhileTheProviderIsDown, and its users do when it is back.
func TestLocalUsersSignInWhileTheProviderIsDown(t *testing.T) {
	t.Parallel()
	p := oidctest.Start(t)
	p.SetDown(true)
	now := time.Now()
	s := openOIDC(t, p, func(o *signin.Options) { o.Now = func() time.Time { return now } })
	p.SignIn(claims{"sub": "1", "preferred_username": "alice", "groups": []string{"wakecall-admins"}})
	status, body := enter(s)
	if status != http.StatusServiceUnavailable || !strings.Contains(body, "Example SSO does not answer") ||
		!strings.Contains(body, `name="password"`) {
		t.Errorf("%d\n%s", status, body)
	}
	if status, _ := s.Post("/login", "username", "root", "password", admintest.Password); status != http.StatusOK {
		t.Errorf("a local user got %d", status)
	}
	p.SetDown(false)
	now = now.Add(time.Minute)
	if status, body := enter(s); status != http.StatusOK || !strings.Contains(body, "oidc:alice") {
		t.Errorf("when it is back: %d\n%s", status, body)
	}
	p.SetDown(true)
	if status, _ := s.Post("/logout"); status != http.StatusOK {
		t.Errorf("signing out got %d", status)
	}
	outside(s)
}

// TestSigningOutEndsBothSessions, with the ID token as a hint for the provider.
func TestSigningOutEndsBothSessions(t *testing.T) {
	t.Parallel()
	p := oidctest.Start(t)
	s := openOIDC(t, p, nil)
	p.SignIn(claims{"sub": "1", "preferred_username": "alice", "groups": []string{"wakecall-admins"}})
	enter(s)
	res, body := s.Part("/logout")
	_, address, _ := strings.Cut(res.Header.Get("Refresh"), "url=")
	u, err := url.Parse(address)
	if err != nil || !strings.HasPrefix(address, p.URL+"/logout?") || u.Query().Get("id_token_hint") == "" ||
		u.Query().Get("post_logout_redirect_uri") != s.URL+"/login" {
		t.Errorf("the browser is sent to %q\n%s", address, body)
	}
	outside(s)
	s.As("root")
	if res, _ := s.Part("/logout"); res.Header.Get("Refresh") != "" {
		t.Error("a local user is sent to the provider")
	}
}

// TestASessionEndsWithTheConfiguration: without the provider, or with another one, its users are nobody.
func TestASessionEndsWithTheConfiguration(t *testing.T) {
	t.Parallel()
	p := oidctest.Start(t)
	s := openOIDC(t, p, nil)
	p.SignIn(claims{"sub": "1", "preferred_username": "alice", "groups": []string{"wakecall-admins"}})
	enter(s)
	sessions := account.NewSessions(s.Registry.DB())
	other := admintest.Open(t, func(o *admin.Options) {
		o.Sessions, o.Accounts, o.BasePath = sessions, account.NewStore(s.Registry.Registry), "/wakecall"
	})
	other.Client = s.Client // cookies do not depend on the port
	outside(other)
}

// TestFailedSignInsByTheProviderWait, those from one address.
func TestFailedSignInsByTheProviderWait(t *testing.T) {
	t.Parallel()
	p := oidctest.Start(t)
	s := openOIDC(t, p, nil)
	p.SignIn(claims{"sub": "1", "nonce": "another"})
	for n := 1; n <= 6; n++ {
		status, body := enter(s)
		if want := map[bool]int{true: http.StatusTooManyRequests, false: http.StatusForbidden}[n == 6]; status != want {
			t.Errorf("attempt %d got %d, want %d\n%s", n, status, want, body)
		}
	}
}
