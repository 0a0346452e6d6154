package test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/wakecall/wakecall/test/freeport"
	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/harness/process"
	"github.com/wakecall/wakecall/test/race"
)

// dockerfile is what an image says about the process in its containers.
type dockerfile struct {
	user             string
	env              []string
	entrypoint, args []string
	health           []string
}

var (
	setting = regexp.MustCompile(`WAKECALL_[A-Z_]+=\S+`)
	command = regexp.MustCompile(`(?m)^(ENTRYPOINT|CMD|HEALTHCHECK .*CMD) (\[.*\])$`)
	user    = regexp.MustCompile(`(?m)^USER ([0-9:]+)$`)
)

func readDockerfile(t *testing.T, name string) (d dockerfile) {
	t.Helper()
	text, err := os.ReadFile("../deploy/" + name)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range command.FindAllSubmatch(text, -1) {
		var words []string
		if err := json.Unmarshal(m[2], &words); err != nil {
			t.Fatalf("%s: %s: %v", name, m[0], err)
		}
		switch string(m[1]) {
		case "ENTRYPOINT":
			d.entrypoint = words
		case "CMD":
			d.args = words
		default:
			d.health = words
		}
	}
	for _, e := range setting.FindAll(text, -1) {
		d.env = append(d.env, string(e))
	}
	if m := user.FindSubmatch(text); m != nil {
		d.user = string(m[1])
	}
	if d.user == "" || d.entrypoint == nil || d.args == nil || d.health == nil || len(d.env) == 0 {
		t.Fatalf("%s: %+v", name, d)
	}
	return d
}

// TestImagesRunTheSame: both images differ only in the redis-server.
func TestImagesRunTheSame(t *testing.T) {
	one, other := readDockerfile(t, "Dockerfile"), readDockerfile(t, "Dockerfile.redis")
	if fmt.Sprint(one) != fmt.Sprint(other) {
		t.Errorf("Dockerfile has %+v, Dockerfile.redis %+v", one, other)
	}
}

// TestThePortsOfImagesCanBePublished: what listens on a container's own 127.0.0.1 is out of reach.
func TestThePortsOfImagesCanBePublished(t *testing.T) {
	env := readDockerfile(t, "Dockerfile").env
	for _, want := range []string{
		"WAKECALL_SERVER_ADDR=0.0.0.0:6789", "WAKECALL_ADMIN_ADDR=0.0.0.0:8088", "WAKECALL_METRICS_ADDR=0.0.0.0:9789",
	} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is not in %v", want, env)
		}
	}
}

// inContainer runs a command as the first process of a read-only root with /proc and /dev/null, as an unprivileged
// user. Only data_dir is writable.
const inContainer = `cd / && mount --bind "$0" "$0" && mount --bind "$0/var/lib/wakecall" "$0/var/lib/wakecall" &&
mount -o remount,bind,ro "$0" && mount -t proc proc "$0/proc" && mount --bind /dev/null "$0/dev/null" &&
exec chroot --userspec="$1" "$0" "${@:2}"`

// TestImageNeedsNothingElse than what distroless/static has: the binary becomes healthy and calls a job in a root
// without a shell and libraries, with Redis outside, by the commands of deploy/Dockerfile. `up --demo` is what the README
// runs first.
func TestImageNeedsNothingElse(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	if race.Enabled {
		t.Skip("the binary with the race detector is not static")
	}
	if out, err := exec.Command("unshare", "--mount", "--pid", "--fork", "true").CombinedOutput(); err != nil {
		t.Skipf("needs root to make a root of its own: %v\n%s", err, out)
	}
	d := readDockerfile(t, "Dockerfile")
	dir := process.Dir(t, "image")
	root := filepath.Join(dir, "root")
	data := makeRoot(t, root, d)

	r := harness.StartRedis(t, harness.RedisOptions{})
	endpoint := harness.StartEndpoint(t)
	api := fmt.Sprintf("127.0.0.1:%d", freeport.TCP(t))
	env := append(d.env, "WAKECALL_REDIS_NODES="+r.URL(), "WAKECALL_SERVER_ADDR="+api,
		fmt.Sprintf("WAKECALL_METRICS_ADDR=127.0.0.1:%d", freeport.TCP(t)),
		fmt.Sprintf("WAKECALL_ADMIN_ADDR=127.0.0.1:%d", freeport.TCP(t)))
	cmd := exec.Command("unshare", slices.Concat(
		[]string{"--mount", "--pid", "--fork", "--kill-child", "bash", "-c", inContainer, root, d.user},
		d.entrypoint, d.args, []string{"--demo"})...)
	cmd.Env = append(env, "PATH="+os.Getenv("PATH"))
	p := process.Start(t, dir, "image", cmd)

	harness.Eventually(t, harness.Patience, "the HEALTHCHECK to pass", func() error {
		if p.Exited() {
			t.Fatalf("it ended with code %d", p.WaitExit())
		}
		check := exec.Command("chroot", slices.Concat([]string{"--userspec=" + d.user, root}, d.health)...)
		check.Env = env
		out, err := check.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	})
	token, err := os.ReadFile(filepath.Join(data, "api-token"))
	if err != nil {
		t.Fatal(err)
	}
	i := &installation{&harness.Wakecall{API: harness.NewAPI("http://"+api, strings.TrimSpace(string(token)))}, endpoint}
	topic := i.topic(t, nil, nil)
	i.MustPush(t, topic, M{"body": 1, "delay": "100ms"})
	endpoint.WaitCalls(t, topic, 1)
	harness.Eventually(t, harness.Patience, "the demo to say how to sign in", func() error {
		if log := p.Log(0); !strings.Contains(log, "shows its password:\n\n  cat ") {
			return errors.New(log)
		}
		return nil
	})

	first, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", p.PID()))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(first)))
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGTERM)
	}
	if code := p.WaitExit(); err != nil || code != 0 {
		t.Errorf("after SIGTERM: code %d, %v", code, err)
	}
}

// makeRoot makes the root of a container, and returns its data directory.
func makeRoot(t *testing.T, root string, d dockerfile) (data string) {
	t.Helper()
	data = filepath.Join(root, "var/lib/wakecall")
	binary := filepath.Join(root, d.entrypoint[0])
	uid, err := strconv.Atoi(strings.Split(d.user, ":")[0])
	for _, dir := range []string{data, filepath.Dir(binary), root + "/proc", root + "/dev", root + "/etc/ssl/certs"} {
		err = errors.Join(err, os.MkdirAll(dir, 0o755))
	}
	program, readErr := os.ReadFile(harness.Binary(t))
	err = errors.Join(err, readErr, os.WriteFile(binary, program, 0o755),
		os.WriteFile(root+"/dev/null", nil, 0o600),
		os.WriteFile(root+"/etc/passwd", []byte("root:x:0:0:root:/root:/sbin/nologin\n"), 0o644),
		os.Chown(data, uid, uid), os.Chmod(data, 0o700), os.Chmod(filepath.Dir(root), 0o755), os.Chmod(root, 0o755))
	if err != nil {
		t.Fatal(err)
	}
	return data
}
