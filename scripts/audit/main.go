package main

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "audit:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) < 2 {
		return errors.New("usage: audit licences|sbom BINARY [VERSION]")
	}
	b, err := read(args[1])
	if err != nil {
		return err
	}
	if len(args) > 2 {
		b.main.Version = args[2]
	}
	switch args[0] {
	case "licences":
		return b.judge(out)
	case "sbom":
		return b.writeSBOM(out)
	}
	return fmt.Errorf("%q is neither licences nor sbom", args[0])
}

// module is a module that the linker included in the binary.
type module struct {
	Path, Version, Sum string
	Licences           []string // SPDX identifiers; empty: unknown
}

// binary is the build information of a binary.
type binary struct {
	goVersion string
	main      module
	modules   []module
}

func read(file string) (*binary, error) {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the modules of %s: %w", file, err)
	}
	b := &binary{goVersion: info.GoVersion, main: module{Path: info.Main.Path, Version: info.Main.Version}}
	for _, d := range info.Deps {
		if d.Replace != nil {
			d = d.Replace
		}
		b.modules = append(b.modules, module{Path: d.Path, Version: d.Version, Sum: d.Sum})
	}
	dirs, err := folders(b.modules)
	if err != nil {
		return nil, err
	}
	for i := range b.modules {
		if b.modules[i].Licences, err = licencesIn(dirs[b.modules[i].Path]); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// folders returns the modules' folders in the module cache.
func folders(modules []module) (map[string]string, error) {
	args := []string{"list", "-m", "-f", "{{.Path}}\t{{.Dir}}"}
	for _, m := range modules {
		args = append(args, m.Path)
	}
	cmd := exec.Command("go", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("find the modules' folders: %w", err)
	}
	dirs := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, dir, _ := strings.Cut(strings.TrimSpace(line), "\t")
		dirs[path] = dir
	}
	return dirs, nil
}

// allowed are the licences of modules that a program under the Apache License 2.0 may include with no more than a
// notice.
var allowed = []string{
	"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0", "blessing", "CC0-1.0", "Unlicense",
}

// judge counts the modules by licence, and fails at the first one that is not allowed.
func (b *binary) judge(out io.Writer) error {
	count := map[string]int{}
	for _, m := range b.modules {
		if len(m.Licences) == 0 {
			return fmt.Errorf("%s %s has no known licence; read it, and add its words to scripts/audit or remove the module",
				m.Path, m.Version)
		}
		for _, l := range m.Licences {
			if !slices.Contains(allowed, l) {
				return fmt.Errorf("%s %s is under %s, which is not allowed; remove the module", m.Path, m.Version, l)
			}
			count[l]++
		}
	}
	names := make([]string, 0, len(count))
	for l, n := range count {
		names = append(names, fmt.Sprintf("%s %d", l, n))
	}
	slices.Sort(names)
	_, err := fmt.Fprintf(out, "%d modules in the binary: %s\n", len(b.modules), strings.Join(names, ", "))
	return err
}
