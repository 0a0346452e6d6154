// Package charttest renders the Helm chart, and tests it.
package charttest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// helm is a program of Kubernetes' size, so it is no dependency of this module: building it takes some minutes once.
const helm = "helm.sh/helm/v3/cmd/helm@v3.22.0"

// Namespace and Release are what the chart is rendered for.
const (
	Namespace = "prod"
	Release   = "wakecall"
)

// Object is a rendered object, or a part of one.
type Object map[string]any

// Chart is the chart's directory.
func Chart(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "deploy", "helm", "wakecall")
		}
		dir = filepath.Dir(dir)
	}
}

// Render renders the chart with values, a YAML text. refusal is empty, or what helm says against the values.
func Render(t testing.TB, values string) (objects []Object, refusal string) {
	t.Helper()
	out, refusal := Helm(t, values, "template", Release, Chart(t), "--namespace", Namespace, "--values", "-")
	decoder := yaml.NewDecoder(bytes.NewReader(out))
	for {
		var o Object
		err := decoder.Decode(&o)
		switch {
		case errors.Is(err, io.EOF):
			return objects, refusal
		case err != nil:
			t.Fatalf("the rendered chart is not YAML: %v\n%s", err, out)
		case o != nil:
			objects = append(objects, o)
		}
	}
}

// Helm runs helm for a current Kubernetes. refusal is empty, or what it says when it fails.
func Helm(t testing.TB, stdin string, args ...string) (out []byte, refusal string) {
	t.Helper()
	cmd := exec.Command("go", append([]string{"run", helm}, append(args, "--kube-version", "1.34.0")...)...)
	var stderr bytes.Buffer
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath") // as make builds it, also for tests with cgo
	cmd.Stdin, cmd.Stderr = strings.NewReader(stdin), &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Sprintf("%v: %s%s", err, stderr.String(), out)
	}
	return out, ""
}

// Get returns the member of an object at a path of keys and indices, nil if there is none.
func (o Object) Get(path ...any) any {
	var at any = map[string]any(o)
	for _, p := range path {
		switch in := at.(type) {
		case map[string]any:
			at = in[fmt.Sprint(p)]
		case []any:
			if i, ok := p.(int); ok && i < len(in) {
				at = in[i]
				continue
			}
			return nil
		default:
			return nil
		}
	}
	return at
}

// Part is Get of a map; it is empty if there is none.
func (o Object) Part(path ...any) Object {
	part, _ := o.Get(path...).(map[string]any)
	return part
}

// List is Get of a list of maps.
func (o Object) List(path ...any) (list []Object) {
	members, _ := o.Get(path...).([]any)
	for _, m := range members {
		part, _ := m.(map[string]any)
		list = append(list, part)
	}
	return list
}

// Text is Get of a text or number.
func (o Object) Text(path ...any) string {
	if v := o.Get(path...); v != nil {
		return fmt.Sprint(v)
	}
	return ""
}

// Name returns KIND/NAME.
func (o Object) Name() string { return o.Text("kind") + "/" + o.Text("metadata", "name") }

// Find returns the object with a name, KIND/NAME.
func Find(t testing.TB, objects []Object, name string) Object {
	t.Helper()
	for _, o := range objects {
		if o.Name() == name {
			return o
		}
	}
	t.Fatalf("no %s is rendered", name)
	return nil
}

// Container returns the container of a StatefulSet's pods.
func (o Object) Container() Object { return o.Part("spec", "template", "spec", "containers", 0) }
