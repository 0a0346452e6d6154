package grape

import (
	"net"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/test/pulltest"
)

// TestTheAccountsOfTheConfigurationAreRequired: without their file, nobody is served.
func TestTheAccountsOfTheConfigurationAreRequired(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	q := pulltest.Start(t)
	all := Protocol.Servers(pulltest.Endpoint(t, Protocol.Name), &gateway.Process{
		Queue: q.Queue, Workers: q.Hub, Registry: q.Registry, Setting: func(string) string { return "/none" },
	})
	if err := all[keyWebAddr](t.Context(), l); err == nil || !strings.Contains(err.Error(), keyAccounts) {
		t.Error(err)
	}
}
