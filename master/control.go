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

const askLimit = time.Second

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
	path := filepath.Join(m.options.DataDir, ControlSocket)
	_ = os.Remove(path) // left by a killed master: this one holds the lock
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("open the control socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("open the control socket: %w", err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { acceptAll(l, func(conn net.Conn) { wg.Go(func() { m.answer(ctx, conn) }) }) })
	srv, err := m.serveMetrics()
	if err != nil {
		_ = l.Close()
		wg.Wait()
		return nil, err
	}
	return func() {
		_ = l.Close()
		if srv != nil {
			ctx, cancel := context.WithTimeout(context.Background(), askLimit)
			defer cancel()
			_ = srv.Shutdown(ctx)
		}
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

func (m *Master) answer(ctx context.Context, conn net.Conn) {
	defer func() { _ = conn.Close() }()
	_ = conn.SetReadDeadline(time.Now().Add(askLimit))
	var q request
	if err := json.NewDecoder(conn).Decode(&q); err != nil {
		return
	}
	r := response{}
	var err error
	switch q.Ask {
	case "ps":
		r.Tree = m.tree()
	case "api":
		r.API = m.opts().API
	case "reload":
		err = m.reload(ctx)
	case "restart":
		err = m.restart(ctx, q.Role, q.Number)
	default:
		err = fmt.Errorf("unknown request %q", q.Ask)
	}
	if err != nil {
		r.Error = err.Error()
	}
	_ = conn.SetWriteDeadline(time.Now().Add(askLimit))
	_ = json.NewEncoder(conn).Encode(r) // on an error the client has disconnected
}

// ErrNoMaster is returned for a data directory on which no master runs.
var ErrNoMaster = errors.New("no master answers; is `wakecall up` running with this data_dir?")

// At is the data directory of the master to address.
type At string

func (dir At) ask(ctx context.Context, q request) (*response, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(string(dir), ControlSocket))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, ErrNoMaster)
	}
	defer func() { _ = conn.Close() }()
	// When ctx ends, only the wait ends; the master still performs the request.
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	var r response
	err = json.NewEncoder(conn).Encode(q)
	if err == nil {
		err = json.NewDecoder(conn).Decode(&r)
	}
	if err != nil {
		return nil, fmt.Errorf("ask the master of %s: %w", dir, err)
	}
	if r.Error != "" {
		return nil, errors.New(r.Error)
	}
	return &r, nil
}

// Ps returns the master and its processes.
func (dir At) Ps(ctx context.Context) (*Tree, error) {
	r, err := dir.ask(ctx, request{Ask: "ps"})
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
