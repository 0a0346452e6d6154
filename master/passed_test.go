package master

import (
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
)

func TestASocketCoversAnAddressIfItAcceptsTheSameConnections(t *testing.T) {
	for _, c := range []struct {
		have, want string
		covers     bool
	}{
		{"127.0.0.1:6789", "127.0.0.1:6789", true},
		{"127.0.0.1:6789", "127.0.0.1:6788", false},
		{"127.0.0.1:6789", "127.0.0.2:6789", false},
		{"127.0.0.1:6789", ":6789", false},
		{"[::]:6789", ":6789", true},
		{"[::]:6789", "0.0.0.0:6789", true},
		{"[::]:6789", "[::]:6789", true},
		{"0.0.0.0:6789", "0.0.0.0:6789", true},
		{"0.0.0.0:6789", "[::]:6789", false},
		{"0.0.0.0:6789", ":6789", false},
		{"[::]:6789", "127.0.0.1:6789", false}, // it would be reachable from other hosts
		{"[::1]:6789", "[::1]:6789", true},
	} {
		have, err := net.ResolveTCPAddr("tcp", c.have)
		if err != nil {
			t.Fatal(err)
		}
		want, err := net.ResolveTCPAddr("tcp", c.want)
		if err != nil {
			t.Fatal(err)
		}
		if got := covers(have, want); got != c.covers {
			t.Errorf("%s covers %s: %t", c.have, c.want, got)
		}
	}
}

// Names that go-systemd would silently ignore are refused, before anything is started. Sockets for another process are
// not.
func TestWrongSocketActivationIsRefused(t *testing.T) {
	own := strconv.Itoa(os.Getpid())
	for _, c := range []struct{ pid, fds, names, want string }{
		{"", "1", "", ""},
		{own, "", "", ""},
		{"1", "nonsense", "", ""},
		{"me", "1", "", `LISTEN_PID="me"`},
		{own, "two", "", `LISTEN_FDS="two"`},
		{own, "0", "", `LISTEN_FDS="0"`},
		{own, "2", "http:admin:metrics", "has 3 names"},
		{own, "99999999", "", "is not a listening stream socket"},
	} {
		err := checkPassed(c.pid, c.fds, c.names)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestTheStatusReportsANewerBinary(t *testing.T) {
	for version, want := range map[string]string{"v1": "", "": "", "v2": "v2"} {
		tree := &Tree{Version: "v1", Processes: []Process{{}, {Version: version}}}
		if got := tree.Newer(); got != want {
			t.Errorf("processes of %q: got %q", version, got)
		}
	}
}
