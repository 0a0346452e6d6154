package master

import (
	"net"
	"os"
	"slices"
	"syscall"
	"testing"
)

// scarce is a listener that first finds no descriptor free, then accepts a connection, and then is closed.
type scarce struct {
	net.Listener
	accepts int
}

func (s *scarce) Accept() (net.Conn, error) {
	s.accepts++
	switch s.accepts {
	case 1:
		return nil, os.NewSyscallError("accept4", syscall.EMFILE)
	case 2:
		conn, _ := net.Pipe()
		return conn, nil
	}
	return nil, net.ErrClosed
}

func TestTheMasterAnswersAgainAfterAShortageOfDescriptors(t *testing.T) {
	answered := 0
	acceptAll(&scarce{}, func(net.Conn) { answered++ })
	if answered != 1 {
		t.Errorf("%d connections were answered", answered)
	}
}

// TestAMasterThatStartedNothingYetIsNotReady: its redis-server loads its data before the first process starts.
func TestAMasterThatStartedNothingYetIsNotReady(t *testing.T) {
	m := &Master{options: Options{Roles: []RoleSpec{
		{Name: "server", Count: 1}, {Name: "timer", Count: 2, Numbered: true}, {Name: "gateway"},
	}}}
	var titles []string
	for _, p := range m.tree().Processes {
		titles = append(titles, p.Title())
		if p.IsReady() {
			t.Errorf("%s is ready", p.Title())
		}
	}
	if want := []string{"server", "timer 1", "timer 2"}; !slices.Equal(titles, want) {
		t.Errorf("it shows %q, want %q", titles, want)
	}
}

// TestASocketOfAKilledProcessIsRemovedByTheNext one that starts, those of others are not.
func TestASocketOfAKilledProcessIsRemovedByTheNext(t *testing.T) {
	dir := tempDir(t)
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: dir + "/dispatcher-AAAAAA.sock", Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	_ = dead.Close()
	is := func(want ...string) {
		t.Helper()
		list, err := At(dir).All(t.Context())
		var got []string
		for _, p := range list {
			got = append(got, p.Role+" "+p.State)
		}
		if slices.Sort(got); err != nil || !slices.Equal(got, want) {
			t.Errorf("it finds %q, %v; want %q", got, err, want)
		}
	}
	is("dispatcher ended")
	describe := func() Process { return Process{State: StateRunning} }
	stopTimer, err := ServeAlone(dir, "timer", describe)
	if err != nil {
		t.Fatal(err)
	}
	is("timer running")
	stopServer, err := ServeAlone(dir, "server", describe)
	if err != nil {
		t.Fatal(err)
	}
	is("server running", "timer running")
	stopOther, err := ServeAlone(dir, "timer", describe) // of another container: with the same process ID
	if err != nil {
		t.Fatal(err)
	}
	is("server running", "timer running", "timer running")
	stopOther()
	is("server running", "timer running")
	stopTimer()
	stopServer()
	is()
}
