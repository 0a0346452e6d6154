// Package oidctest is an identity provider for tests: discovery, keys, authorization with PKCE, tokens, userinfo and
// log-out.
package oidctest

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"
)

// Credentials of the only client.
const (
	ClientID     = "wakecall"
	ClientSecret = "the client's secret"
)

// Provider is an identity provider. Whoever comes is signed in as the person in Claims, without being asked.
type Provider struct {
	*httptest.Server

	mu       sync.Mutex
	key      *rsa.PrivateKey
	keyID    int
	claims   map[string]any
	userinfo map[string]any
	ask      bool
	down     bool
	codes    map[string]grant
	signOuts []url.Values
}

// grant is what a code stands for.
type grant struct{ nonce, challenge, redirect string }

// Start starts a provider, which is closed when the test ends.
func Start(t *testing.T) *Provider {
	t.Helper()
	p := &Provider{codes: map[string]grant{}, claims: map[string]any{}, userinfo: map[string]any{}}
	p.RotateKey(t)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.discovery)
	mux.HandleFunc("GET /keys", p.keys)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("GET /userinfo", p.info)
	mux.HandleFunc("GET /logout", p.logout)
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.down {
			http.Error(w, "down for maintenance", http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

// RotateKey replaces the key that signs.
func (p *Provider) RotateKey(t *testing.T) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.key = key
	p.keyID++
}

// SignIn sets the claims of the person who is signed in from now on. They override those of the provider, such as aud.
func (p *Provider) SignIn(claims map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.claims = claims
}

// Userinfo sets the claims that the userinfo endpoint has.
func (p *Provider) Userinfo(claims map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.userinfo = claims
}

// Ask makes the provider show a page with a button, instead of signing in at once.
func (p *Provider) Ask() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ask = true
}

// SetDown makes all answers 503, or ends that.
func (p *Provider) SetDown(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
}

// SignOuts returns the queries of the log-outs.
func (p *Provider) SignOuts() []url.Values {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.signOuts
}

func (p *Provider) discovery(w http.ResponseWriter, _ *http.Request) {
	answer(w, map[string]any{
		"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token",
		"jwks_uri": p.URL + "/keys", "userinfo_endpoint": p.URL + "/userinfo", "end_session_endpoint": p.URL + "/logout",
		"id_token_signing_alg_values_supported": []string{"RS256"}, "code_challenge_methods_supported": []string{"S256"},
	})
}

func (p *Provider) keys(w http.ResponseWriter, _ *http.Request) {
	answer(w, map[string]any{"keys": []any{map[string]string{
		"kty": "RSA", "use": "sig", "alg": "RS256", "kid": fmt.Sprint(p.keyID), "n": encode(p.key.N.Bytes()),
		"e": encode(big.NewInt(int64(p.key.E)).Bytes()),
	}}})
}

func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("client_id") != ClientID || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" ||
		q.Get("nonce") == "" || q.Get("state") == "" {
		http.Error(w, "unexpected request: "+r.URL.RawQuery, http.StatusBadRequest)
		return
	}
	code := rand.Text()
	p.codes[code] = grant{q.Get("nonce"), q.Get("code_challenge"), q.Get("redirect_uri")}
	back := q.Get("redirect_uri") + "?" + url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {p.URL}}.Encode()
	if !p.ask {
		http.Redirect(w, r, back, http.StatusFound)
		return
	}
	page(w, fmt.Sprintf(`<a id="enter" href="%s">Enter</a>`, html.EscapeString(back)))
}

// token exchanges a code, once.
func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	if id, secret, _ := r.BasicAuth(); id != ClientID || unescape(secret) != ClientSecret {
		refuse(w, http.StatusUnauthorized, "invalid_client")
		return
	}
	g, ok := p.codes[r.FormValue("code")]
	delete(p.codes, r.FormValue("code"))
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	if !ok || g.challenge != encode(sum[:]) || g.redirect != r.FormValue("redirect_uri") {
		refuse(w, http.StatusBadRequest, "invalid_grant")
		return
	}
	answer(w, map[string]any{
		"access_token": "access", "token_type": "Bearer", "expires_in": 300, "id_token": p.idToken(g.nonce),
	})
}

func (p *Provider) idToken(nonce string) string {
	now := time.Now()
	claims := map[string]any{
		"iss": p.URL, "aud": ClientID, "nonce": nonce, "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(),
	}
	maps.Copy(claims, p.claims)
	header, _ := json.Marshal(map[string]string{"alg": "RS256", "kid": fmt.Sprint(p.keyID)})
	body, _ := json.Marshal(claims)
	text := encode(header) + "." + encode(body)
	sum := sha256.Sum256([]byte(text))
	signature, _ := rsa.SignPKCS1v15(rand.Reader, p.key, crypto.SHA256, sum[:])
	return text + "." + encode(signature)
}

func (p *Provider) info(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer access" {
		refuse(w, http.StatusUnauthorized, "invalid_token")
		return
	}
	answer(w, p.userinfo)
}

func (p *Provider) logout(w http.ResponseWriter, r *http.Request) {
	p.signOuts = append(p.signOuts, r.URL.Query())
	back := r.URL.Query().Get("post_logout_redirect_uri")
	page(w, fmt.Sprintf(`<p>Signed out of the provider</p><a id="back" href="%s">Back</a>`, html.EscapeString(back)))
}

func answer(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": code})
}

func page(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = fmt.Fprintf(w, "<!doctype html><html lang=\"en\"><title>Provider</title><body>%s</body></html>", body)
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func unescape(s string) string {
	plain, _ := url.QueryUnescape(s)
	return plain
}
