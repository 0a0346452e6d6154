package gateway

import (
	"context"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/wakecall/wakecall/internal/document"
	"github.com/wakecall/wakecall/internal/listen"
)

// Accounts are the users of a listener. Their methods may be called from any goroutine.
type Accounts struct {
	passwords map[string]string

	mu      sync.Mutex // held while a password is checked, so that a correct one never counts as a guess
	guesses *listen.LoginLimit
}

// NewAccounts returns accounts with passwords by user.
func NewAccounts(passwords map[string]string, now func() time.Time) *Accounts {
	return &Accounts{passwords: passwords, guesses: listen.NewLoginLimit(now)}
}

// Password returns a user's password.
func (a *Accounts) Password(user string) (password string, known bool) {
	password, known = a.passwords[user]
	return password, known
}

// Admit reports whether a request has a user's password or, after too many wrong ones, how long the client must wait.
func (a *Accounts) Admit(r *http.Request, user, password string) (ok bool, wait time.Duration) {
	address, _, _ := net.SplitHostPort(r.RemoteAddr)
	a.mu.Lock()
	defer a.mu.Unlock()
	if wait := a.guesses.Try(user, address, ""); wait > 0 {
		return false, wait
	}
	known, exists := a.passwords[user]
	if !exists || subtle.ConstantTimeCompare([]byte(known), []byte(password)) == 0 {
		return false, 0
	}
	a.guesses.Passed(user, address)
	return true, 0
}

// WithAccounts serves with the accounts in a file that has one USER:PASSWORD per line. key is the file's configuration
// key.
func WithAccounts(key, file string, serve func(*Accounts) Serve) Prepare {
	return func(context.Context) (Serve, error) {
		passwords, err := readAccounts(key, file)
		if err != nil {
			return nil, err
		}
		return serve(NewAccounts(passwords, time.Now)), nil
	}
}

// CheckAccounts is the Check of a protocol: if the key addr is set, the file of the key accounts must be readable. An
// empty accounts is for the protocol to allow or not.
func CheckAccounts(addr, accounts string) func(setting func(key string) string) error {
	return func(setting func(key string) string) error {
		file := setting(accounts)
		if setting(addr) == "" || file == "" {
			return nil
		}
		_, err := readAccounts(accounts, file)
		return err
	}
}

func readAccounts(key, file string) (map[string]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	accounts := map[string]string{}
	for line := range strings.Lines(string(document.Text(text))) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		user, password, ok := strings.Cut(line, ":")
		if !ok || user == "" || password == "" {
			return nil, fmt.Errorf("%s: each line of %s must be USER:PASSWORD", key, file)
		}
		accounts[user] = password
	}
	if len(accounts) == 0 {
		return nil, fmt.Errorf("%s: %s has no accounts", key, file)
	}
	return accounts, nil
}
