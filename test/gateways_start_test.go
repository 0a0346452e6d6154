package test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/master"
	"github.com/wakecall/wakecall/test/freeport"
	"github.com/wakecall/wakecall/test/harness"
)

// A gateway that cannot serve stops no other: `wakecall ps` and `wakecall check` say why, and it serves when the reason
// is gone. A reload to a configuration that is known not to work changes nothing.
func TestGatewayThatCannotServeStopsNoOther(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	free := func() string { return fmt.Sprintf("127.0.0.1:%d", freeport.TCP(t)) }
	web, phpdq := free(), free()
	other, err := net.Listen("tcp", "127.0.0.1:0") // another program
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	accounts := filepath.Join(t.TempDir(), "accounts")
	w := harness.StartWakecall(t, harness.Options{Env: map[string]string{
		"WAKECALL_GATEWAYS_GRAPE_WEB_ADDR": web, "WAKECALL_GATEWAYS_GRAPE_ACCOUNTS": accounts,
		"WAKECALL_GATEWAYS_PHPDQ_ADDR": phpdq, "WAKECALL_GATEWAYS_BEANSTALK_ADDR": other.Addr().String(),
	}})
	serves := func() bool { return strings.Contains(sendTo(t, phpdq, phpdqGet), `"code"`) }
	until(t, "php-delayqueue is served", serves)
	gateways := w.WaitRole("gateway", 1)
	says := func(command string, words ...string) {
		t.Helper()
		until(t, command+" says "+strings.Join(words, ", "), func() bool {
			_, output := w.Run(command)
			for _, word := range words {
				if !strings.Contains(output, word) {
					return false
				}
			}
			return true
		})
	}
	says("ps", "gateways.grape.accounts: open "+accounts, "gateways.beanstalk.addr could not be listened on")
	says("check", other.Addr().String()+" is in use by another program", "gateways.grape.accounts: open "+accounts)

	reload := func() string { return fmt.Sprint(master.At(w.Data).Reload(t.Context())) }
	if err := reload(); !strings.Contains(err, accounts) {
		t.Errorf("a reload without the accounts: %s", err)
	}
	writeAccounts(t, accounts)
	waitWeb(t, web)
	if err := reload(); !strings.Contains(err, "gateways.beanstalk.addr") {
		t.Errorf("a reload without the port: %s", err)
	}
	if got := w.WaitRole("gateway", 1); got[0] != gateways[0] || !serves() {
		t.Errorf("the gateway %v is now %v", gateways, got)
	}
	_ = other.Close()
	if err := reload(); err != fmt.Sprint(nil) {
		t.Errorf("a reload that can work: %s", err)
	}
	until(t, "beanstalkd's clients are served", func() bool {
		return strings.HasPrefix(sendTo(t, other.Addr().String(), "list-tubes\r\n"), "OK")
	})
	if code, output := w.Run("check"); code != 0 {
		t.Errorf("check: code %d, %s", code, output)
	}
}

// phpdqGet asks for a job that does not exist.
const phpdqGet = `0037{"cmd":"get","topic":"none","id":"1"}`

func writeAccounts(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, []byte("ops:secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func waitWeb(t *testing.T, addr string) {
	t.Helper()
	until(t, "Grape's web page is served", func() bool {
		return strings.Contains(sendTo(t, addr, "GET /api/tube/list HTTP/1.0\r\n\r\n"), "401")
	})
}
