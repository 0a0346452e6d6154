package master

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// ControlSocket is the name of the master's socket in its data directory.
const ControlSocket = "master.sock"

const (
	askPs    = "ps"
	askLimit = time.Second
)

type request struct {
	Ask    string `json:"ask"` // ps, api, reload, restart
	Role   string `json:"role,omitempty"`
	Number int    `json:"number,omitempty"`
}

type response struct {
	Tree  *Tree  `json:"tree,omitempty"`
	API   string `json:"api,omitempty"`
	Error string `json:"error,omitempty"`
}

// serve opens the control socket and the metrics address.
func (m *Master) serve(ctx context.Context) (stop func(), err error) {
	closeSocket, err := openControl(m.options.DataDir, ControlSocket, func(q request) (response, error) {
		return m.answer(ctx, q)
	})
	if err != nil {
		return nil, err
	}
	srv, err := m.serveMetrics()
	if err != nil {
		closeSocket()
		return nil, err
	}
	return func() {
		closeSocket()
		if srv != nil {
			ctx, cancel := context.WithTimeout(context.Background(), askLimit)
			defer cancel()
			_ = srv.Shutdown(ctx)
		}
	}, nil
}

// openControl answers requests on a socket in dir until stop is called. The socket gets its name when it already
// listens and only this user can use it, so whoever finds one that refuses connections knows that its process has
// ended.
func openControl(dir, name string, answer func(request) (response, error)) (stop func(), err error) {
	path := filepath.Join(dir, name)
	opening := path + ".new"
	_ = os.Remove(opening)
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "unix", opening)
	if err != nil {
		return nil, fmt.Errorf("open the control socket: %w", err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(opening, 0o600), os.Rename(opening, path)); err != nil {
		return nil, fmt.Errorf("open the control socket: %w", errors.Join(err, l.Close(), os.Remove(opening)))
	}
	removeDead(dir)
	var wg sync.WaitGroup
	wg.Go(func() { acceptAll(l, func(conn net.Conn) { wg.Go(func() { answerOne(conn, answer) }) }) })
	return func() {
		_ = os.Remove(path)
		_ = l.Close()
		wg.Wait()
	}, nil
}

// acceptPause is the pause after a connection could not be accepted because no descriptor was free.
const acceptPause = 100 * time.Millisecond

// acceptAll passes every connection to answer until the listener is closed.
func acceptAll(l net.Listener, answer func(net.Conn)) {
	for {
		conn, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			time.Sleep(acceptPause)
		default:
			answer(conn)
		}
	}
}

func answerOne(conn net.Conn, answer func(request) (response, error)) {
	defer func() { _ = conn.Close() }()
	_ = conn.SetReadDeadline(time.Now().Add(askLimit))
	var q request
	if err := json.NewDecoder(conn).Decode(&q); err != nil {
		return
	}
	r, err := answer(q)
	if err != nil {
		r.Error = err.Error()
	}
	_ = conn.SetWriteDeadline(time.Now().Add(askLimit))
	_ = json.NewEncoder(conn).Encode(r) // on an error the client has disconnected
}

func (m *Master) answer(ctx context.Context, q request) (r response, err error) {
	switch q.Ask {
	case askPs:
		r.Tree = m.tree()
	case "api":
		r.API = m.opts().API
	case "reload":
		err = m.reload(ctx)
	case "restart":
		err = m.restart(ctx, q.Role, q.Number)
	default:
		err = unknown(q)
	}
	return r, err
}

func unknown(q request) error { return fmt.Errorf("unknown request %q", q.Ask) }

// ErrNoMaster is returned for a data directory on which no master runs.
var ErrNoMaster = errors.New("no master answers; is `wakecall up` running with this data_dir?")

// At is the data directory of the master to address.
type At string

func (dir At) ask(ctx context.Context, q request) (*response, error) {
	conn, err := dialSocket(ctx, filepath.Join(string(dir), ControlSocket))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, ErrNoMaster)
	}
	r, err := askOn(ctx, conn, q)
	if err != nil {
		return nil, fmt.Errorf("ask the master of %s: %w", dir, err)
	}
	if r.Error != "" {
		return nil, errors.New(r.Error)
	}
	return r, nil
}

func dialSocket(ctx context.Context, socket string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "unix", socket)
}

func askOn(ctx context.Context, conn net.Conn, q request) (*response, error) {
	defer func() { _ = conn.Close() }()
	// When ctx ends, only the wait ends; the master still performs the request.
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	var r response
	err := json.NewEncoder(conn).Encode(q)
	if err == nil {
		err = json.NewDecoder(conn).Decode(&r)
	}
	return &r, err
}

// Ps returns the master and its processes.
func (dir At) Ps(ctx context.Context) (*Tree, error) {
	r, err := dir.ask(ctx, request{Ask: askPs})
	if err != nil {
		return nil, err
	}
	return r.Tree, nil
}

// API returns the URL of the API.
func (dir At) API(ctx context.Context) (string, error) {
	r, err := dir.ask(ctx, request{Ask: "api"})
	if err != nil {
		return "", err
	}
	return r.API, nil
}

// Reload makes the master reload, and waits until it has finished.
func (dir At) Reload(ctx context.Context) error {
	_, err := dir.ask(ctx, request{Ask: "reload"})
	return err
}

// Restart replaces one process. Number 0 means the only process of the role.
func (dir At) Restart(ctx context.Context, role string, number int) error {
	_, err := dir.ask(ctx, request{Ask: "restart", Role: role, Number: number})
	return err
}
