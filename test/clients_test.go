package test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/freeport"
	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/harness/process"
)

// language is one whose client the repository has.
type language struct {
	name     string   // of its code blocks
	commands []string // that build its package, install it, and run programs
	source   string   // the folder of its package
	// install builds the package in a copy of its folder, and installs what was built in the directory of the programs.
	install func(t *testing.T, source, dir string)
	types   func(t *testing.T, dir string) // checks those of the installed package
	cancels bool                           // its calls can be cancelled
	driver  string
	// programs are the files of the three examples.
	programs [3]string
	// compile compiles all files of a directory.
	compile []string
	// variants are other ways to use the package, whose calls can be cancelled. The driver has their name in its environment.
	variants []string
	env      []string // of the driver
	// run returns how a file is run; a server, which listens on addr, may be run in another way.
	run, serve func(file, addr string) []string
	// terminated is the exit code of a worker that has ended after SIGTERM.
	terminated int
}

func interpreted(command string) func(file, addr string) []string {
	return func(file, _ string) []string { return []string{command, file} }
}

func compiled(file, _ string) []string {
	return []string{"java", "-Xshare:auto", "-cp", ".:wakecall.jar", strings.TrimSuffix(file, ".java")}
}

var languages = []language{
	{
		name: "python", commands: []string{"python3", "pyproject-build", debianPython}, source: "clients/python",
		install: installWheel, types: typesOfPython,
		driver: "driver.py", programs: [3]string{"push.py", "callback.py", "worker.py"},
		run: interpreted("python3"), serve: interpreted("python3"), variants: []string{"asyncio"},
	},
	{
		name: "js", commands: []string{"node", "npm"}, source: "clients/node", install: installTarball, types: typesOfNode,
		cancels: true, driver: "driver.mjs", programs: [3]string{"push.mjs", "callback.mjs", "worker.mjs"},
		run: interpreted("node"), serve: interpreted("node"),
	},
	{
		name: "php", commands: []string{"php", "composer"}, source: "clients/php", install: installComposer,
		driver: "driver.php", programs: [3]string{"push.php", "callback.php", "worker.php"}, run: interpreted("php"),
		serve: func(file, addr string) []string { return []string{"php", "-S", addr, file} },
	},
	{
		name: "java", commands: []string{"javac", "mvn"}, source: "clients/java", install: installJar,
		cancels: true, driver: "Driver.java", programs: [3]string{"PushOrder.java", "Callback.java", "Worker.java"},
		compile: []string{
			"javac", "--release", "11", "-encoding", "UTF-8", "-cp", "wakecall.jar", "-d", ".",
			"Driver.java", "PushOrder.java", "Callback.java", "Worker.java",
		},
		run: compiled, serve: compiled,
		// A JVM that ends by a signal has its number, whatever the program does.
		terminated: 128 + int(syscall.SIGTERM),
	},
	{
		name: "go", commands: []string{"go"}, source: clientsGuide, programs: [3]string{"push.go", "callback.go", "worker.go"},
		run:   func(file, _ string) []string { return []string{"./" + strings.TrimSuffix(file, ".go")} },
		serve: func(file, _ string) []string { return []string{"./" + strings.TrimSuffix(file, ".go")} },
	},
}

const clientsGuide = "docs/guides/clients.md"

// readme is the document with the examples of a language.
func (l *language) readme() string {
	if filepath.Ext(l.source) == ".md" {
		return l.source
	}
	return filepath.Join(l.source, "README.md")
}

// codeBlocks returns the code of a language in a document.
func codeBlocks(t *testing.T, file, language string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", file))
	must(t, err)
	var blocks []string
	for _, block := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllSubmatch(text, -1) {
		blocks = append(blocks, string(block[1]))
	}
	if len(blocks) != 3 {
		t.Fatalf("%s has %d blocks of %s, want 3: push, callback, worker", file, len(blocks), language)
	}
	return blocks
}

// TestClients: the programs that the documents show for each language push, receive a signed callback and work a pull
// topic; and each client does what clientCases say.
func TestClients(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{})
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			for _, command := range l.commands {
				skipWithout(t, command)
			}
			c := newClientTest(t, i, l)
			t.Run("examples", func(t *testing.T) { t.Parallel(); c.examples(t) })
			if l.driver == "" {
				return
			}
			if l.types != nil {
				t.Run("types", func(t *testing.T) { t.Parallel(); l.types(t, c.dir) })
			}
			c.runDriver(t)
			for _, variant := range l.variants {
				v := *c
				v.name, v.cancels, v.env = variant, true, []string{"WAKECALL_VARIANT=" + variant}
				t.Run(variant, func(t *testing.T) { t.Parallel(); v.runDriver(t) })
			}
		})
	}
}

// runDriver runs what each client does.
func (c *clientTest) runDriver(t *testing.T) {
	t.Run("worker", func(t *testing.T) { t.Parallel(); c.worker(t) })
	t.Run("bodies", func(t *testing.T) { t.Parallel(); c.workerBodies(t) })
	t.Run("calls", func(t *testing.T) {
		t.Parallel()
		d := c.drive(t)
		for _, one := range clientCases {
			t.Run(one.name, func(t *testing.T) { one.test(t, d) })
		}
	})
}

// clientTest is a language's client with an installation.
type clientTest struct {
	language
	*installation
	dir    string
	port   int
	secret string
}

// newClientTest installs the client, and puts its driver and its examples beside it.
func newClientTest(t *testing.T, i *installation, l language) *clientTest {
	t.Helper()
	c := &clientTest{language: l, installation: i, dir: process.Dir(t, "client-"+l.name), port: freeport.TCP(t)}
	c.secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	c.writeExamples(t)
	if l.install == nil {
		return c
	}
	source := t.TempDir()
	must(t, os.CopyFS(source, os.DirFS("../"+l.source)))
	l.install(t, source, c.dir)
	text, err := os.ReadFile("testdata/clients/" + l.driver)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(c.dir, l.driver), text, 0o600))
	if l.compile != nil {
		runTool(t, c.dir, l.compile...)
	}
	return c
}

// writeExamples writes the programs of the documents, with this installation in them. Those in Go are built from here,
// so that their imports are resolved in this module.
func (c *clientTest) writeExamples(t *testing.T) {
	t.Helper()
	here := strings.NewReplacer("http://127.0.0.1:6789", c.Base, "8080", fmt.Sprint(c.port),
		"order.close", c.topicName("close"), "order.mail", c.topicName("mail"))
	for n, block := range codeBlocks(t, c.readme(), c.name) {
		file := filepath.Join(c.dir, c.programs[n])
		must(t, os.WriteFile(file, []byte(here.Replace(block)), 0o600))
		if c.name == "go" {
			runTool(t, ".", "go", "build", "-o", c.dir+"/", file)
		}
	}
}

func (c *clientTest) topicName(kind string) string { return "clients-" + c.name + "." + kind }

// program returns a program with the installation in its environment.
func (c *clientTest) program(args []string) *exec.Cmd {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "WAKECALL_URL="+c.Base, "WAKECALL_TOKEN="+c.Token, "WAKECALL_SECRET="+c.secret)
	cmd.Env = append(cmd.Env, c.env...)
	return cmd
}

func (c *clientTest) examples(t *testing.T) {
	addr := fmt.Sprintf("127.0.0.1:%d", c.port)
	server := process.Start(t, c.dir, c.name+"-callback", c.program(c.serve(c.programs[1], addr)))
	unsigned := func() (*http.Response, error) {
		return http.Post("http://"+addr+"/", "application/json", strings.NewReader(`{"order":42}`))
	}
	harness.Eventually(t, soon, "an unsigned callback to be refused", func() error {
		resp, err := unsigned()
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		return harness.Equal("status", resp.StatusCode, http.StatusUnauthorized)
	})
	closing, mail := c.topicName("close"), c.topicName("mail")
	c.MustPutTopic(t, closing, M{"callback_url": "http://" + addr + "/", "secrets": []string{c.secret}})
	out, err := c.program(c.run(c.programs[0], "")).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "order-42 is due at ") {
		t.Fatalf("push: %v\n%s", err, out)
	}
	if job := c.MustGet(t, closing, "order-42"); time.Until(job.DueAt) < 29*time.Minute {
		t.Errorf("it is due at %s", job.DueAt)
	}
	c.MustDo(t, http.StatusAccepted, http.MethodPost, harness.JobPath(closing, "order-42")+"/run", nil)
	c.waitState(t, closing, "order-42", "done")
	if log := server.Log(0); !strings.Contains(log, "close ") || !strings.Contains(log, "42") {
		t.Errorf("it printed %s", log)
	}

	c.MustPutTopic(t, mail, M{"delivery": "pull"})
	worker := process.Start(t, c.dir, c.name+"-worker", c.program(c.run(c.programs[2], "")))
	c.MustPush(t, mail, M{"id": "mail-1", "body": M{"to": "buyer@example.com"}})
	c.waitState(t, mail, "mail-1", "done")
	worker.Signal(syscall.SIGTERM)
	if code := worker.WaitExit(); code != c.terminated || !strings.Contains(worker.Log(0), "buyer@example.com") {
		t.Errorf("it ended with %d and printed\n%s", code, worker.Log(0))
	}
}

// waitState waits until a job has a state.
func (c *clientTest) waitState(t *testing.T, topic, id, state string) harness.Job {
	t.Helper()
	var job harness.Job
	harness.Eventually(t, soon, topic+"/"+id+" to be "+state, func() error {
		job = c.MustGet(t, topic, id)
		return harness.Equal("its state", job.State, state)
	})
	return job
}

// worker: jobs end as their handlers say, leases are extended meanwhile, and the job of a killed worker comes back.
func (c *clientTest) worker(t *testing.T) {
	topic := c.topicName("work")
	c.MustPutTopic(t, topic, M{"delivery": "pull", "ttr": "2s", "max_attempts": 2, "retry": []string{"1h"}})
	work := func(name, base string) *process.Process {
		cmd := c.program(append(c.run(c.driver, ""), "work", topic))
		cmd.Env = append(cmd.Env, "WAKECALL_URL="+base)
		return process.Start(t, c.dir, c.name+"-"+name, cmd)
	}
	first := work("killed", c.Base)
	c.MustPush(t, topic, M{"id": "hang", "body": "hang"})
	c.waitLog(t, first, `"hang"`)
	first.Kill9()
	c.waitState(t, topic, "hang", "ready")
	c.MustDo(t, http.StatusNoContent, http.MethodDelete, harness.JobPath(topic, "hang"), nil)

	// The second worker begins while Wakecall cannot be reached, and stops in the middle of a job.
	target, err := url.Parse(c.Base)
	must(t, err)
	proxy := breakAnswers(t, loses, replies(http.StatusServiceUnavailable, unavailable),
		httputil.NewSingleHostReverseProxy(target).ServeHTTP)
	second := work("stopped", proxy.URL)
	for id, want := range map[string]struct {
		state, reason string
		attempts      int
	}{
		"fail": {"delayed", "it failed: üü", 1}, "release": {"delayed", "", 0}, "bury": {"dead", "never", 1},
	} {
		c.MustPush(t, topic, M{"id": id, "body": id})
		harness.Eventually(t, soon, id+" to end as its handler says", func() error {
			job, said := c.MustGet(t, topic, id), ""
			for _, a := range job.History {
				said += a.Error
			}
			if job.State != want.state || job.Attempts != want.attempts || !strings.Contains(said, want.reason) {
				return fmt.Errorf("it is %s after %d attempts: %q", job.State, job.Attempts, said)
			}
			return nil
		})
	}
	c.MustPush(t, topic, M{"id": "slow", "body": "slow"}) // takes longer than the lease
	c.waitLog(t, second, `"slow"`)
	second.Signal(syscall.SIGTERM)
	if code := second.WaitExit(); code != c.terminated {
		t.Errorf("it ended with %d: %s", code, second.Log(0))
	}
	if job := c.waitState(t, topic, "slow", "done"); job.Attempts != 1 {
		t.Errorf("the slow job took %d attempts", job.Attempts)
	}

	third := work("waiting", c.Base)
	c.MustPush(t, topic, M{"id": "first", "body": "ok"})
	c.waitState(t, topic, "first", "done")
	third.Signal(syscall.SIGTERM)
	c.waitLog(t, third, "stopping")
	c.MustPush(t, topic, M{"id": "late", "body": "ok"}) // the worker may still wait for jobs
	third.WaitExit()
	if job := c.MustGet(t, topic, "late"); job.State != "ready" || job.Attempts != 0 {
		t.Errorf("a job that came after the stop is %s after %d attempts", job.State, job.Attempts)
	}
}

// testBody is a body of testdata/bodies.tsv: some are portable, others are refused by some readers of JSON.
type testBody struct {
	body     string
	portable bool
}

func testBodies(t *testing.T) (bodies []testBody) {
	t.Helper()
	text, err := os.ReadFile("testdata/bodies.tsv")
	must(t, err)
	for line := range strings.Lines(string(text)) {
		member, body, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		bodies = append(bodies, testBody{body, member == "body"})
	}
	return bodies
}

// pushBodies pushes bodies as jobs 0, 1, 2, …
func pushBodies(t *testing.T, c *clientTest, topic string, bodies []testBody) {
	t.Helper()
	for i, b := range bodies {
		req, err := http.NewRequest(http.MethodPut, c.Base+harness.JobPath(topic, fmt.Sprint(i)), strings.NewReader(b.body))
		must(t, err)
		req.Header.Set("Authorization", "Bearer "+c.Token)
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		must(t, resp.Body.Close())
		if resp.StatusCode != http.StatusCreated {
			t.Fatalf("%.80s: %s", b.body, resp.Status)
		}
	}
}

// workerBodies: a worker ends the attempt of no job whose body it cannot read; others are done.
func (c *clientTest) workerBodies(t *testing.T) {
	topic := c.topicName("odd")
	c.MustPutTopic(t, topic, M{"delivery": "pull", "max_attempts": 1})
	bodies := testBodies(t)
	pushBodies(t, c, topic, bodies)
	process.Start(t, c.dir, c.name+"-bodies", c.program(append(c.run(c.driver, ""), "work", topic)))
	for i, b := range bodies {
		harness.Eventually(t, soon, b.body[:min(len(b.body), 80)]+" to be handled", func() error {
			job := c.MustGet(t, topic, fmt.Sprint(i))
			if job.State == "done" || !b.portable && job.State == "delayed" && job.Attempts == 0 {
				return nil
			}
			return fmt.Errorf("it is %s after %d attempts: %+v", job.State, job.Attempts, job.History)
		})
	}
}

// waitLog waits until a process has printed a text.
func (c *clientTest) waitLog(t *testing.T, p *process.Process, text string) {
	t.Helper()
	harness.Eventually(t, soon, text+" in the log", func() error {
		if log := p.Log(0); !strings.Contains(log, text) {
			return fmt.Errorf("it has %s", log)
		}
		return nil
	})
}

// driver runs commands with a client.
type driver struct {
	*clientTest
	in    io.Writer
	out   *bufio.Reader
	topic string
}

func (c *clientTest) drive(t *testing.T) *driver {
	t.Helper()
	cmd := c.program(c.run(c.driver, ""))
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil || stderr.Len() > 0 {
			t.Errorf("the driver: %v\n%s", err, stderr.String())
		}
	})
	d := &driver{clientTest: c, in: in, out: bufio.NewReader(out), topic: c.topicName("calls")}
	d.MustPutTopic(t, d.topic, M{"callback_url": d.endpoint.URL("/" + d.topic), "secrets": []string{c.secret}})
	return d
}

// failure is an error that a client reports.
type failure struct {
	Kind, Text, Code, Title, Detail, Field, ID string
	Status                                     int
	RequestID                                  string `json:"request_id"`
	OutcomeUnknown                             bool   `json:"outcome_unknown"`
}

// call runs a command, and decodes its value into value unless that is nil.
func (d *driver) call(t *testing.T, command M, value any) *failure {
	t.Helper()
	if command["client"] == nil {
		command["client"] = M{"url": d.Base, "token": d.Token}
	}
	switch client := command["client"].(M); client["retry_for"] {
	case nil:
		client["retry_for"] = 0
	case "default":
		delete(client, "retry_for")
	}
	line, err := json.Marshal(command)
	must(t, err)
	_, err = d.in.Write(append(line, '\n'))
	must(t, err)
	text, err := d.out.ReadBytes('\n')
	if err != nil {
		t.Fatalf("%s: the driver has ended: %v", line, err)
	}
	var answer struct {
		Value json.RawMessage
		Error *failure
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if answer.Error == nil && value != nil {
		if err := json.Unmarshal(answer.Value, value); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	return answer.Error
}

// must runs a command that must succeed.
func (d *driver) must(t *testing.T, command M, value any) {
	t.Helper()
	if f := d.call(t, command, value); f != nil {
		t.Fatalf("%v: %+v", command, f)
	}
}

// fails runs a command that must be refused.
func (d *driver) fails(t *testing.T, command M, status int) *failure {
	t.Helper()
	f := d.call(t, command, nil)
	if f == nil || f.Kind != d.kindOf(status, f.Code) || f.Status != status || f.Detail == "" || f.RequestID == "" ||
		!strings.Contains(f.Text, f.Detail) {
		t.Fatalf("%v: %+v; want status %d", command, f, status)
	}
	return f
}

// kindOf returns the class of a refusal.
func (d *driver) kindOf(status int, code string) string {
	switch code {
	case "group_closed":
		return "GroupClosedError"
	case "lease_over":
		return "LeaseOverError"
	}
	return map[int]string{
		http.StatusUnauthorized: "UnauthorizedError", http.StatusForbidden: "ForbiddenError",
		http.StatusNotFound: "NotFoundError", http.StatusConflict: "ConflictError",
		http.StatusPreconditionFailed: "ChangedError", http.StatusTooManyRequests: "RateLimitedError",
		http.StatusServiceUnavailable: "UnavailableError", http.StatusBadRequest: "InvalidError",
		http.StatusUnprocessableEntity: "InvalidError", http.StatusRequestEntityTooLarge: "InvalidError",
	}[status]
}

// TestTheClientsGuideHasTheExamples: what the guide shows is what TestClients runs.
func TestTheClientsGuideHasTheExamples(t *testing.T) {
	t.Parallel()
	for _, l := range languages {
		if got := codeBlocks(t, clientsGuide, l.name); !slices.Equal(got, codeBlocks(t, l.readme(), l.name)) {
			t.Errorf("%s has other %s programs than %s", clientsGuide, l.name, l.readme())
		}
	}
}

// TestTheClientsHaveTheLicence: each package has the text of the licence that its manifest names.
func TestTheClientsHaveTheLicence(t *testing.T) {
	t.Parallel()
	licence, err := os.ReadFile("../LICENSE")
	must(t, err)
	for _, folder := range []string{"python", "node", "php", "java"} {
		text, err := os.ReadFile("../clients/" + folder + "/LICENSE")
		if err != nil || !bytes.Equal(text, licence) {
			t.Errorf("clients/%s/LICENSE is not that of the repository: %v", folder, err)
		}
	}
}

// TestTheClientsHaveTheNewestVersion: the manifests of packages name the version that the changelog begins with.
func TestTheClientsHaveTheNewestVersion(t *testing.T) {
	t.Parallel()
	changes, err := os.ReadFile("../CHANGELOG.md")
	must(t, err)
	version := regexp.MustCompile(`(?m)^## \[([0-9.]+)\]`).FindSubmatch(changes)
	if version == nil {
		t.Fatal("the changelog names no version")
	}
	for _, file := range []string{"python/pyproject.toml", "node/package.json", "java/pom.xml"} {
		text, err := os.ReadFile("../clients/" + file)
		must(t, err)
		found := regexp.MustCompile(`(?m)^ *["<]?version["> ]+[:=]? ?"?([0-9.]+)`).FindSubmatch(text)
		if found == nil || !bytes.Equal(found[1], version[1]) {
			t.Errorf("clients/%s has the version %q, the changelog %q", file, found, version[1])
		}
	}
}
