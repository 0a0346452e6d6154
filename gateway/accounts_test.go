package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
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

// TestWithoutItsAccountsAListenerServesNobody: it is closed, and the process ends with the reason.
func TestWithoutItsAccountsAListenerServesNobody(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serve := WithAccounts("gateways.x.accounts", "/none", func(*Accounts) Serve {
		t.Error("it serves")
		return func(context.Context, net.Listener) error { return nil }
	})
	if err := serve(t.Context(), l); err == nil || !strings.Contains(err.Error(), "gateways.x.accounts") {
		t.Error(err)
	}
	if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
		_ = c.Close()
		t.Error("it still accepts connections")
	}
}
