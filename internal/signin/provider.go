// Package signin signs users of the web admin in by an identity provider, with OpenID Connect: the authorization code
// flow with PKCE.
package signin

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/wakecall/wakecall/internal/account"
)

// CallbackPath is the path below the web admin's address to which the provider sends browsers back.
const CallbackPath = "/login/oidc/callback"

// Options are the provider, and what its users may do.
type Options struct {
	Name          string // for the sign-in page
	Issuer        string
	ClientID      string
	ClientSecret  string // empty: a public client
	Scopes        []string
	UsernameClaim string // empty: preferred_username, or else email
	GroupsClaim   string
	Roles         map[account.Role][]string // the groups that have a role
	RedirectURL   string                    // ends with CallbackPath
	CAFile        string                    // certificates of authorities to trust besides the system's
	Now           func() time.Time
}

// Provider is an identity provider. It is not contacted until somebody signs in. Its methods may be called from any
// goroutine.
type Provider struct {
	Options
	client *http.Client

	mu       sync.Mutex
	found    *discovered
	failure  error // of the last discovery
	failedAt time.Time
}

// discovered is what the provider says about itself.
type discovered struct {
	*oidc.Provider
	oauth2.Endpoint
	endSession string // empty: it has no log-out
	at         time.Time
}

const (
	timeout      = 10 * time.Second // of a request to the provider
	maxAnswer    = 1 << 20          // bytes
	discoverFor  = time.Hour        // how long a discovery is used
	retryAfter   = 5 * time.Second  // after a failed one
	maxSubject   = 255              // bytes, by the specification
	maxClockSkew = time.Minute
)

// Errors of signing in.
var (
	ErrUnreachable = errors.New("the identity provider does not answer")
	ErrRefused     = errors.New("the identity provider refused to sign in")
	ErrOtherBegun  = errors.New("the sign-in was not begun in this browser, or too long ago")
	ErrInvalid     = errors.New("the answer of the identity provider is not valid")
)

// New returns a Provider. It fails if the file with certificates cannot be read.
func New(o Options) (*Provider, error) {
	pool, err := authorities(o.CAFile)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
		IdleConnTimeout: time.Minute,
	}
	return &Provider{Options: o, client: &http.Client{Timeout: timeout, Transport: limited{transport}}}, nil
}

// authorities returns the system's certificates with those of a file; nil: the system's.
func authorities(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("admin.oidc.ca_file: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("admin.oidc.ca_file: %s has no PEM certificate", file)
	}
	return pool, nil
}

// Close closes idle connections.
func (p *Provider) Close() { p.client.CloseIdleConnections() }

// Discover reads the provider's metadata, unless they are known. Errors: ErrUnreachable.
func (p *Provider) Discover(ctx context.Context) error {
	_, err := p.discover(ctx)
	return err
}

func (p *Provider) discover(ctx context.Context) (*discovered, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.Now()
	if p.found != nil && now.Sub(p.found.at) < discoverFor {
		return p.found, nil
	}
	if p.failure != nil && now.Sub(p.failedAt) < retryAfter {
		return nil, p.failure
	}
	// The next request needs the answer, too, if the browser of this one is gone.
	found, err := p.read(context.WithoutCancel(ctx))
	if err != nil {
		p.failure, p.failedAt = fmt.Errorf("%w: discover %s: %w", ErrUnreachable, p.Issuer, err), now
		return nil, p.failure
	}
	p.found, p.failure = found, nil
	found.at = now
	return found, nil
}

func (p *Provider) read(ctx context.Context) (*discovered, error) {
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.Issuer)
	if err != nil {
		return nil, err
	}
	var claims struct {
		EndSession string   `json:"end_session_endpoint"`
		Methods    []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := provider.Claims(&claims); err != nil {
		return nil, fmt.Errorf("read its metadata: %w", err)
	}
	found := &discovered{Provider: provider, Endpoint: provider.Endpoint(), endSession: claims.EndSession}
	if found.AuthURL == "" || found.TokenURL == "" {
		return nil, errors.New("its metadata have no authorization_endpoint or no token_endpoint")
	}
	// Trying one method after the other would use up the code.
	found.AuthStyle = oauth2.AuthStyleInHeader
	if p.ClientSecret == "" || len(claims.Methods) > 0 && !slices.Contains(claims.Methods, "client_secret_basic") {
		found.AuthStyle = oauth2.AuthStyleInParams
	}
	return found, nil
}

func (p *Provider) oauth(found *discovered) *oauth2.Config {
	return &oauth2.Config{
		ClientID: p.ClientID, ClientSecret: p.ClientSecret, Endpoint: found.Endpoint, RedirectURL: p.RedirectURL,
		Scopes: p.Scopes,
	}
}

// Attempt is a sign-in that has begun. The browser keeps it, so that only it can finish it.
type Attempt struct {
	State    string    `json:"state"`
	Nonce    string    `json:"nonce"`
	Verifier string    `json:"verifier"` // for PKCE
	Next     string    `json:"next"`     // the page to open then
	Until    time.Time `json:"until"`
}

// attemptLife includes the time to sign in at the provider.
const attemptLife = 10 * time.Minute

// Begin begins a sign-in, and returns the provider's address for the browser. Errors: ErrUnreachable.
func (p *Provider) Begin(ctx context.Context, next string) (address string, a Attempt, err error) {
	found, err := p.discover(ctx)
	if err != nil {
		return "", a, err
	}
	a = Attempt{rand.Text(), rand.Text(), oauth2.GenerateVerifier(), next, p.Now().Add(attemptLife)}
	address = p.oauth(found).AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier))
	return address, a, nil
}

// Finish finishes a sign-in with the query that the provider gave the browser. Errors: ErrUnreachable, ErrRefused,
// ErrOtherBegun, ErrInvalid.
func (p *Provider) Finish(ctx context.Context, a Attempt, query url.Values) (*Identity, error) {
	if a.State == "" || a.State != query.Get("state") || p.Now().After(a.Until) {
		return nil, ErrOtherBegun
	}
	if iss := query.Get("iss"); iss != "" && iss != p.Issuer { // RFC 9207
		return nil, fmt.Errorf("%w: it is from %q", ErrInvalid, iss)
	}
	if code := query.Get("error"); code != "" {
		return nil, fmt.Errorf("%w: %s %s", ErrRefused, code, query.Get("error_description"))
	}
	found, err := p.discover(ctx)
	if err != nil {
		return nil, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	tokens, err := p.oauth(found).Exchange(ctx, query.Get("code"), oauth2.VerifierOption(a.Verifier))
	if err != nil {
		return nil, fmt.Errorf("%w: exchange the code: %w", kindOf(err), err)
	}
	return p.identify(ctx, found, tokens, a.Nonce)
}

// kindOf returns ErrInvalid if the provider answered, else ErrUnreachable.
func kindOf(err error) error {
	var answer *oauth2.RetrieveError
	if errors.As(err, &answer) && answer.Response.StatusCode < http.StatusInternalServerError {
		return ErrInvalid
	}
	return ErrUnreachable
}

// SignOutURL returns the address at which the browser ends its session at the provider and then returns to the sign-in
// page. It is empty if the provider has none, or does not answer.
func (p *Provider) SignOutURL(ctx context.Context, idToken string) string {
	found, err := p.discover(ctx)
	if err != nil || found.endSession == "" {
		return ""
	}
	u, err := url.Parse(found.endSession)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" {
		return ""
	}
	q := u.Query()
	q.Set("client_id", p.ClientID)
	q.Set("post_logout_redirect_uri", strings.TrimSuffix(p.RedirectURL, CallbackPath)+"/login")
	if idToken != "" {
		q.Set("id_token_hint", idToken)
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// Label returns the provider's name, or the host of its issuer.
func (p *Provider) Label() string { return cmp.Or(p.Name, hostOf(p.Issuer)) }
