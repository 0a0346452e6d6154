package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
)

// WithAccounts serves with the accounts of a file of lines USER:PASSWORD, as passwords by user. If the file cannot be
// read, nobody is served: the listener is closed. key is the file's configuration key.
func WithAccounts(key, file string, serve func(accounts map[string]string) Serve) Serve {
	return func(ctx context.Context, l net.Listener) error {
		accounts, err := readAccounts(key, file)
		if err != nil {
			return errors.Join(err, l.Close())
		}
		return serve(accounts)(ctx, l)
	}
}

func readAccounts(key, file string) (map[string]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	accounts := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		user, password, ok := strings.Cut(line, ":")
		if !ok || user == "" || password == "" {
			return nil, fmt.Errorf("%s: a line of %s is not USER:PASSWORD", key, file)
		}
		accounts[user] = password
	}
	if len(accounts) == 0 {
		return nil, fmt.Errorf("%s: %s has no account", key, file)
	}
	return accounts, nil
}
