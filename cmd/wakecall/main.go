package main

import (
	"cmp"
	"context"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/wakecall/wakecall/app"
	"github.com/wakecall/wakecall/internal/log"
	"github.com/wakecall/wakecall/master/child"
)

// linked is set by the linker (make build). Otherwise the version is the module's, as with go install. Tags and modules
// write v0.1.0, packages and images 0.1.0.
var (
	linked  string
	version = strings.TrimPrefix(cmp.Or(linked, moduleVersion()), "v")
)

func main() { os.Exit(run()) }

func run() int {
	// Only the user can read what this program and its children write (bodies, secrets, sockets).
	syscall.Umask(0o077)
	if child.Is() {
		return child.Main(app.ChildRoles(version))
	}
	defer log.Stderr.Close()
	if os.Getpid() == 1 {
		defer reap(reapEvery)()
	}
	s := watchSignals()
	defer s.stop()
	p := &program{in: os.Stdin, out: os.Stdout, err: os.Stderr, env: os.Environ(), now: time.Now, signals: s,
		replace: replaceProcess}
	return p.execute(s.context(context.Background()), os.Args[1:])
}

// replaceProcess executes this program again with other arguments and another environment, under the same process id.
func replaceProcess(args, env []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(self, args, env)
}
