package setup

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/disk"
	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/master"
)

// wantedSpace is the free space below which Check warns.
const wantedSpace = 256 << 20

// neededSpace is the free space that the journal requires to count as writable.
const neededSpace = 256 << 10

func checkDirs(cfg *conf.Config) []Finding {
	findings := append([]Finding{checkDir("data_dir", cfg.DataDir)}, checkOpenDir(cfg.DataDir)...)
	if err := journal.CheckFormat(cfg.JournalDir()); errors.Is(err, journal.ErrFormat) {
		findings = append(findings, failedErr("journal", err, ""))
	}
	if cfg.Journal.Dir != "" {
		findings = append(findings, checkDir("journal.dir", cfg.JournalDir()))
	}
	return findings
}

// checkDir checks that a directory is writable, or can be created.
func checkDir(what, dir string) Finding {
	missing := false
	at := dir
	for {
		info, err := os.Stat(at)
		if err == nil && !info.IsDir() {
			return failed(what, at+" is not a directory", "Set "+what+" to a directory")
		}
		if err == nil {
			break
		}
		if !errors.Is(err, os.ErrNotExist) {
			return failedErr(what, err, "Set "+what+" to a directory that this user can write to")
		}
		missing, at = true, filepath.Dir(at)
	}
	if err := tryWrite(at); err != nil {
		return failedErr(what, err,
			fmt.Sprintf("Give it to this user (chown %d %s), or set %s to another directory", os.Getuid(),
				printable.Word(at), what))
	}
	free, _, err := disk.Space(at)
	if err != nil {
		return failedErr(what, err, "")
	}
	if free < neededSpace {
		return failed(what, fmt.Sprintf("%s cannot be written: only %s free", dir, printable.Bytes(free)),
			"Free up space: pushes are refused until then")
	}
	if free < wantedSpace {
		return warn(what, fmt.Sprintf("%s has only %s free", dir, printable.Bytes(free)),
			"Free up space: pushes are refused when the disk is full")
	}
	if missing {
		return fine(what, "%s will be created by the first start; %s free", dir, printable.Bytes(free))
	}
	return fine(what, "%s, %s free", dir, printable.Bytes(free))
}

func tryWrite(dir string) error {
	f, err := os.CreateTemp(dir, ".wakecall-check-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// checkPorts checks that the addresses are free, or used by the master of this data_dir.
func checkPorts(ctx context.Context, cfg *conf.Config) []Finding {
	tree := askMaster(ctx, cfg)
	var findings []Finding
	for _, l := range cfg.Listeners() {
		if l.Addr != "" {
			findings = append(findings, checkPort(l.Key, l.Addr, tree))
		}
	}
	return findings
}

// serves reports whether a gateway of the master serves a key. Its address cannot be asked like the others, because an
// HTTP request would be an error in its protocol.
func serves(tree *master.Tree, key string) bool {
	for _, p := range tree.Processes {
		for _, one := range p.Reported().Services {
			if one.Name == key {
				return one.State == "running"
			}
		}
	}
	return false
}

// whoAnswers reports whether Wakecall or another program answers at an address.
func whoAnswers(key, addr string) (wakecall, other bool) {
	path, mark := "/healthz", `{"status":"ok"}`
	if key == "metrics.addr" {
		path, mark = "/metrics", "wakecall_"
	}
	c := LocalClient()
	c.Timeout = 2 * time.Second
	for _, scheme := range []string{"http", "https"} {
		resp, err := c.Get(scheme + "://" + Reachable(addr) + path)
		if err != nil {
			continue
		}
		text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		resp.Body.Close()
		if err == nil && strings.Contains(string(text), mark) {
			return true, false
		}
		other = true
	}
	return false, other
}

// LocalClient returns a client for listeners of this host. It does not verify the certificate, which is issued for the
// name that clients use, and must send nothing secret. It uses no proxy and follows no redirect.
func LocalClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func checkPort(key, addr string, tree *master.Tree) Finding {
	l, err := net.Listen("tcp", addr)
	switch {
	case err == nil:
		l.Close()
		return fine(key, "%s is free", addr)
	case errors.Is(err, syscall.EADDRINUSE):
		if strings.HasPrefix(key, "gateways.") {
			return checkUsedGateway(key, addr, tree)
		}
		return checkUsedPort(key, addr, tree.Pid)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return failed(key, addr+" is not an address of this machine", "Set "+key+" to one, or to 0.0.0.0:PORT for all")
	case errors.Is(err, syscall.EACCES):
		return failed(key, "this user is not allowed to listen on "+addr, "Set "+key+" to port 1024 or higher")
	}
	return failedErr(key, err, "Set "+key+" to a HOST:PORT of this machine")
}

func checkUsedPort(key, addr string, master int) Finding {
	wakecall, other := whoAnswers(key, addr)
	switch {
	case master > 0 && !other: // a listener that does not answer may just be busy
		return fine(key, "%s is used by the master (pid %d) of this data_dir", addr, master)
	case wakecall:
		return warn(key, addr+" is used by a role that runs alone, or by a Wakecall with a different data_dir",
			"to run `wakecall up` beside it, set "+key+" to another address")
	}
	return failed(key, addr+" is in use by another program",
		"Stop that program (ss -ltnp shows which), or set "+key+" to another address")
}

func checkUsedGateway(key, addr string, tree *master.Tree) Finding {
	if serves(tree, key) {
		return fine(key, "%s is used by the master (pid %d) of this data_dir", addr, tree.Pid)
	}
	advice := "Stop that program (ss -ltnp shows which), or set " + key + " to another address"
	if tree.Pid > 0 {
		return failed(key, addr+" is in use by another program", advice+"; then reload Wakecall (HUP)")
	}
	return warn(key, addr+" is in use by another program, or by a gateway that runs alone",
		advice+": until then `wakecall up` starts without it")
}

// PsLimit is how long the master may take to query all its processes.
const PsLimit = 5 * time.Second

// askMaster returns the processes of the master of this data_dir, or an empty tree if none answers.
func askMaster(ctx context.Context, cfg *conf.Config) *master.Tree {
	ctx, cancel := context.WithTimeout(ctx, PsLimit)
	defer cancel()
	tree, err := master.At(cfg.DataDir).Ps(ctx)
	if err != nil {
		return &master.Tree{}
	}
	return tree
}
