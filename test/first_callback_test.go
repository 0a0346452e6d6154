package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/wakecall/wakecall/test/freeport"
	"github.com/wakecall/wakecall/test/harness"
)

// TestTheFirstCallbackOfThePage runs the commands of docs/first-callback.md in their order, and finds what the page says
// that one sees.
func TestTheFirstCallbackOfThePage(t *testing.T) {
	t.Parallel()
	i := start(t, unhurried())
	text := pageFor(t, i, "first-callback.md", "9000", fmt.Sprint(freeport.TCP(t)))
	reader := newReader(t)
	must(t, os.WriteFile(filepath.Join(reader.dir, "endpoint.py"), []byte(fences(text, "python")[0]), 0o600))

	reader.follows(text,
		"", "200", "", "401", "shop.close created", `"name":"shop.close"`,
		`closing {"order":42} attempt 1`, `closing {"order":43} attempt 1`,
		"order-44", "retried at", `closing {"order":44} attempt 2`, "state         done")
}

// TestThePagesHaveOneExample: a reader who goes from one page to the next meets the same topic with the same endpoint,
// at the name that it has from there.
func TestThePagesHaveOneExample(t *testing.T) {
	t.Parallel()
	url := regexp.MustCompile(`callback_url"?: ?"?(http[^"\s]+)`)
	hosts := map[string]string{
		"../README.md": "127.0.0.1", "../docs/first-callback.md": "127.0.0.1", "../docs/install/package.md": "127.0.0.1",
		"../docs/install/container.md": "host.docker.internal", "../docs/install/kubernetes.md": "shop.default.svc",
	}
	for page, host := range hosts {
		text, err := os.ReadFile(page)
		must(t, err)
		found := url.FindAllStringSubmatch(string(text), -1)
		if len(found) == 0 || !strings.Contains(string(text), "shop.close") {
			t.Errorf("%s has no topic shop.close with a callback_url", page)
		}
		for _, match := range found {
			if want := "http://" + host + ":9000/"; match[1] != want {
				t.Errorf("%s calls %s, want %s", page, match[1], want)
			}
		}
	}
}

// pageFor returns a page of the documents with the addresses of an installation in place of the defaults. Further pairs
// are replaced, too.
func pageFor(t *testing.T, i *installation, name string, pairs ...string) string {
	t.Helper()
	page, err := os.ReadFile("../docs/" + name)
	must(t, err)
	pairs = append(pairs, "http://127.0.0.1:6789", i.Base, "data/api-token", filepath.Join(i.Data, "api-token"))
	return strings.NewReplacer(pairs...).Replace(string(page))
}

// followGuide runs the commands of a guide in their order, and finds what the page says that one sees.
func followGuide(t *testing.T, name string, sees ...string) {
	t.Helper()
	newReader(t).follows(pageFor(t, start(t, unhurried()), "guides/"+name), sees...)
}

// fences returns the fenced code of a language.
func fences(page, language string) []string {
	var found []string
	for _, match := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(page, -1) {
		found = append(found, match[1])
	}
	return found
}

// pageReader types commands into a shell.
type pageReader struct {
	t     *testing.T
	dir   string
	typed int
	shell *os.File
}

func newReader(t *testing.T) *pageReader {
	t.Helper()
	r := &pageReader{t: t, dir: t.TempDir()}
	must(t, os.Symlink(harness.Binary(t), filepath.Join(r.dir, "wakecall")))
	out, err := os.Create(r.file())
	must(t, err)
	in, shell, err := os.Pipe()
	must(t, err)
	r.shell = shell
	cmd := exec.Command("bash")
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = r.dir, in, out, out
	cmd.Env = append(os.Environ(), "PATH="+r.dir+":"+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the endpoint, too, ends with the test
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		for _, f := range []*os.File{in, out, shell} {
			_ = f.Close()
		}
	})
	return r
}

// follows types the commands of a page, and sees something after each.
func (r *pageReader) follows(page string, sees ...string) {
	r.t.Helper()
	commands := fences(page, "sh")
	if len(commands) != len(sees) {
		r.t.Fatalf("the page has %d commands; this test knows what to see after %d", len(commands), len(sees))
	}
	for n, command := range commands {
		r.types(command, sees[n])
	}
}

func (r *pageReader) file() string { return filepath.Join(r.dir, "screen") }

func (r *pageReader) screen() string {
	b, err := os.ReadFile(r.file())
	must(r.t, err)
	return string(b)
}

// types runs a command and waits until the screen shows the wanted text, which may come from the endpoint. A question is
// asked until the answer has it.
func (r *pageReader) types(command, want string) {
	r.t.Helper()
	question := strings.HasPrefix(command, "curl -s") || strings.HasPrefix(command, "wakecall get") ||
		strings.HasPrefix(command, "call $WAKECALL_URL")
	before := len(r.screen())
	r.run(command)
	harness.Eventually(r.t, soon, fmt.Sprintf("%q after %s", want, command), func() error {
		seen := r.screen()[before:]
		if strings.Contains(seen, want) {
			return nil
		}
		if question {
			r.run(command)
		}
		return fmt.Errorf("the screen shows %s", seen)
	})
}

func (r *pageReader) run(command string) {
	r.t.Helper()
	r.typed++
	end := fmt.Sprintf("end of command %d\n", r.typed)
	_, err := fmt.Fprintf(r.shell, "%s\necho; echo -n '%s'\n", command, end)
	must(r.t, err)
	harness.Eventually(r.t, soon, "the end of "+command, func() error {
		if screen := r.screen(); !strings.Contains(screen, end) {
			return fmt.Errorf("the screen shows %s", screen)
		}
		return nil
	})
}
