package master

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// aloneSocket is the name of the control socket of a role without a master: dispatcher-K3QZ7A.sock. Process IDs are no
// names: containers that share a data directory have the same ones.
var aloneSocket = regexp.MustCompile(`^([a-z-]+)-[A-Z2-7]{6}\.sock$`)

// ServeAlone answers All for a role without a master until stop is called.
func ServeAlone(dir, role string, describe func() Process) (stop func(), err error) {
	started := time.Now().UTC()
	name := role + "-" + rand.Text()[:6] + ".sock"
	return openControl(dir, name, func(q request) (response, error) {
		if q.Ask != askPs {
			return response{}, unknown(q)
		}
		p := describe()
		p.Role, p.Pid, p.StartedAt, p.RSS = role, os.Getpid(), started, rss(os.Getpid())
		return response{Tree: &Tree{Pid: p.Pid, Version: p.Version, StartedAt: started, Processes: []Process{p}}}, nil
	})
}

// All returns every process that runs on the data directory: those of its master, and roles that run alone. It includes
// those that were killed: their sockets are left.
func (dir At) All(ctx context.Context) ([]Process, error) {
	sockets, err := controlSockets(string(dir))
	if err != nil {
		return nil, err
	}
	found, errs := make([][]Process, len(sockets)), make([]error, len(sockets))
	var wg sync.WaitGroup
	for i, name := range sockets {
		wg.Go(func() { found[i], errs[i] = dir.askFor(ctx, name) })
	}
	wg.Wait()
	return slices.Concat(found...), errors.Join(errs...)
}

func (dir At) askFor(ctx context.Context, socket string) ([]Process, error) {
	role := "master"
	if m := aloneSocket.FindStringSubmatch(socket); m != nil {
		role = m[1]
	}
	conn, err := dialSocket(ctx, filepath.Join(string(dir), socket))
	switch {
	case errors.Is(err, syscall.ENOENT): // it stopped just now
		return nil, nil
	case errors.Is(err, syscall.ECONNREFUSED):
		return []Process{{Role: role, State: StateEnded}}, nil
	case err != nil:
		return nil, err
	}
	r, err := askOn(ctx, conn, request{Ask: askPs})
	if err != nil || r.Tree == nil {
		return []Process{{Role: role, State: StateSilent}}, nil
	}
	return r.Tree.Processes, nil
}

// controlSockets returns the names of the control sockets in a data directory.
func controlSockets(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		if e.Name() == ControlSocket || aloneSocket.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// removeDead removes the sockets of killed processes, which would never be ready again. A process that starts does so:
// whoever started it has decided what runs now.
func removeDead(dir string) {
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	names, _ := controlSockets(dir) // the socket that is opened next has the same error
	for _, name := range names {
		path := filepath.Join(dir, name)
		conn, err := dialSocket(ctx, path)
		if err == nil {
			_ = conn.Close()
		}
		if errors.Is(err, syscall.ECONNREFUSED) {
			_ = os.Remove(path)
		}
	}
}

// Title returns the role and its number.
func (p *Process) Title() string {
	if p.Number == 0 {
		return p.Role
	}
	return p.Role + " " + strconv.Itoa(p.Number)
}
