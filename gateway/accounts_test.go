package gateway

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAccountsAreRead from lines of the form USER:PASSWORD. A file with an error admits nobody rather than everybody.
func TestAccountsAreRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "accounts")
	for text, want := range map[string]string{
		"ops:secret\n":                      "map[ops:secret]",
		"\n  ops:with:colons \r\n\ndev:x\n": "map[dev:x ops:with:colons]",
		"ops:old\nops:new":                  "map[ops:new]",
		"":                                  "has no accounts", "\n \n": "has no accounts",
		"ops": "must be USER:PASSWORD", ":secret": "must be USER:PASSWORD",
		"ops:secret\ndev:\n": "must be USER:PASSWORD",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		accounts, err := readAccounts("gateways.grape.accounts", file)
		switch {
		case err == nil && fmt.Sprint(accounts) != want:
			t.Errorf("%q: %v, want %s", text, accounts, want)
		case err != nil && (!strings.HasPrefix(err.Error(), "gateways.grape.accounts: ") ||
			!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") || accounts != nil):
			t.Errorf("%q: %v %v, want %s", text, accounts, err, want)
		}
	}
	if _, err := readAccounts("key", file+".none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// TestWithoutItsAccountsAListenerServesNobody: it does not begin to serve, and a check finds it before, if the listener
// is enabled.
func TestWithoutItsAccountsAListenerServesNobody(t *testing.T) {
	prepare := WithAccounts("gateways.x.accounts", "/none", func(*Accounts) Serve {
		t.Error("it serves")
		return nil
	})
	if _, err := prepare(t.Context()); err == nil || !strings.Contains(err.Error(), "gateways.x.accounts") {
		t.Error(err)
	}
	check := func(addr string) error {
		return CheckAccounts("addr", "gateways.x.accounts")(func(key string) string {
			return map[string]string{"addr": addr, "gateways.x.accounts": "/none"}[key]
		})
	}
	if err := check("127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "gateways.x.accounts") {
		t.Error(err)
	}
	if err := check(""); err != nil {
		t.Errorf("a listener that is off: %v", err)
	}
}
