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

// TestTypesOfTheClients: the types that the packages have are complete, and right.
func TestTypesOfTheClients(t *testing.T) {
	t.Parallel()
	t.Run("python", func(t *testing.T) {
		t.Parallel()
		if _, err := exec.LookPath("mypy"); err != nil {
			t.Skip("SKIPPED: mypy is not installed (make need-all installs it)")
		}
		runTool(t, "../clients/python", "mypy", "--cache-dir", t.TempDir(), "--strict", "src/wakecall")
	})
	t.Run("js", func(t *testing.T) {
		t.Parallel()
		for _, command := range []string{"tsc", "npm"} {
			if _, err := exec.LookPath(command); err != nil {
				t.Skipf("SKIPPED: %s is not installed (make need-all installs it)", command)
			}
		}
		source, dir := t.TempDir(), t.TempDir()
		must(t, os.CopyFS(source, os.DirFS("../clients/node")))
		installTarball(t, source, dir)
		text, err := os.ReadFile("testdata/clients/types.ts")
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, "esm.mts"), text, 0o600))      // import
		must(t, os.WriteFile(filepath.Join(dir, "commonjs.cts"), text, 0o600)) // require
		runTool(t, dir, "tsc", "--strict", "--noEmit", "--module", "node16", "--target", "es2022", "--lib", "es2022,dom",
			"esm.mts", "commonjs.cts")
	})
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

func copiedFile(name string) func(t *testing.T, source, dir string) {
	return func(t *testing.T, source, dir string) {
		text, err := os.ReadFile(filepath.Join(source, name))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, filepath.Base(name)), text, 0o600))
	}
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
