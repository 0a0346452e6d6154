package test

import (
	"archive/zip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// debianPython is the interpreter that has pip and setuptools when make need-all has run, whatever python3 is.
const debianPython = "/usr/bin/python3"

func skipWithout(t *testing.T, command string) {
	t.Helper()
	if _, err := exec.LookPath(command); err != nil {
		t.Skipf("SKIPPED: %s is not installed (make need-all installs it)", command)
	}
}

// runTool runs a command of a package's tools in a directory.
func runTool(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "COMPOSER_ALLOW_SUPERUSER=1") // CI is root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
}

// built returns the one file that a tool has built.
func built(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	must(t, err)
	if len(files) != 1 {
		t.Fatalf("%s: %q", pattern, files)
	}
	return files[0]
}

// typesOfPython: what type checkers know of the Python client is complete, and right.
func typesOfPython(t *testing.T, dir string) {
	skipWithout(t, "mypy")
	runTool(t, dir, "mypy", "--cache-dir", t.TempDir(), "--strict", "wakecall")
}

// typesOfNode: TypeScript knows the client for Node.js, whether it is imported or required.
func typesOfNode(t *testing.T, dir string) {
	skipWithout(t, "tsc")
	text, err := os.ReadFile("testdata/clients/types.ts")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "esm.mts"), text, 0o600))      // import
	must(t, os.WriteFile(filepath.Join(dir, "commonjs.cts"), text, 0o600)) // require
	runTool(t, dir, "tsc", "--strict", "--noEmit", "--module", "node16", "--target", "es2022", "--lib", "es2022,dom",
		"esm.mts", "commonjs.cts")
}

// installTarball installs the tarball of the client for Node.js.
func installTarball(t *testing.T, source, dir string) {
	runTool(t, source, "npm", "pack", "--silent", "--offline")
	runTool(t, dir, "npm", "install", "--silent", "--offline", "--ignore-scripts", "--no-audit", "--no-fund",
		built(t, filepath.Join(source, "wakecall-*.tgz")))
	runTool(t, dir, "node", "--print", `new (require("wakecall").Client)({ url: "http://127.0.0.1" })`)
}

// installComposer lets Composer install the PHP client from its folder, with the autoloader of its composer.json.
func installComposer(t *testing.T, source, dir string) {
	runTool(t, source, "composer", "validate", "--strict")
	must(t, os.WriteFile(filepath.Join(dir, "composer.json"), fmt.Appendf(nil, `{
		"repositories": [{"type": "path", "url": %q, "options": {"symlink": false}}, {"packagist.org": false}],
		"require": {"wakecall/wakecall": "@dev"}
	}`, source), 0o600))
	runTool(t, dir, "composer", "install", "--no-interaction", "--no-progress", "--prefer-dist")
}

// installWheel installs the wheel of the Python client. The wheel says that it has types, and the client without asyncio
// is what the one with asyncio makes.
func installWheel(t *testing.T, source, dir string) {
	committed, err := os.ReadFile(filepath.Join(source, "src/wakecall/_client.py"))
	must(t, err)
	runTool(t, source, "python3", "make_client.py")
	if made, err := os.ReadFile(filepath.Join(source, "src/wakecall/_client.py")); err != nil || string(made) != string(committed) {
		t.Errorf("_client.py is not what make_client.py makes of _async_client.py: run it (%v)", err)
	}
	runTool(t, source, "pyproject-build", "--no-isolation", "--wheel")
	wheel := built(t, filepath.Join(source, "dist/wakecall-*-py3-none-any.whl"))
	archive, err := zip.OpenReader(wheel)
	must(t, err)
	defer archive.Close()
	if _, err := archive.Open("wakecall/py.typed"); err != nil {
		t.Errorf("the wheel: %v", err)
	}
	runTool(t, source, debianPython, "-m", "pip", "install", "-q", "--root-user-action=ignore", "--no-index", "--no-deps",
		"--target", dir, wheel)
}

// mavenRepository is where Debian's packages have Maven's plugins, so that nothing is fetched.
const mavenRepository = "/usr/share/maven-repo"

// installJar builds the jars of the client for Java: its classes, its sources and its documentation.
func installJar(t *testing.T, source, dir string) {
	if _, err := os.Stat(filepath.Join(mavenRepository, "org/apache/maven/plugins/maven-javadoc-plugin")); err != nil {
		t.Skip("SKIPPED: Maven's plugins are not installed (make need-all installs them)")
	}
	runTool(t, source, "mvn", "-q", "-B", "-o", "-Dmaven.repo.local="+mavenRepository, "-Dmaven.test.skip", "package")
	for _, kind := range []string{"-sources", "-javadoc"} {
		built(t, filepath.Join(source, "target/wakecall-[0-9.]*"+kind+".jar"))
	}
	jar, err := os.ReadFile(built(t, filepath.Join(source, "target/wakecall-*[0-9].jar")))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "wakecall.jar"), jar, 0o600))
}
