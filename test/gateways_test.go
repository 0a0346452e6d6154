package test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/freeport"
	"github.com/wakecall/wakecall/test/harness"
)

// startGateway starts an installation with one gateway, and returns the gateway's address.
func startGateway(t *testing.T, name string) (*harness.Wakecall, string) {
	t.Helper()
	addr := fmt.Sprintf("127.0.0.1:%d", freeport.TCP(t))
	w := harness.StartWakecall(t, harness.Options{Env: map[string]string{"WAKECALL_GATEWAYS_" + name + "_ADDR": addr}})
	waitListening(t, addr)
	return w, addr
}

// until waits until a condition holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	harness.Eventually(t, time.Minute, what, func() error {
		if !holds() {
			return errNotYet
		}
		return nil
	})
}

var errNotYet = errors.New("not yet")
