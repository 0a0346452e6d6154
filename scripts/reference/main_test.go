package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestTheReferencesAreGenerated from the table of keys.
func TestTheReferencesAreGenerated(t *testing.T) {
	list, err := files("../..")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range list {
		got, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s differs from the table of keys: run `go generate ./conf`", name)
		}
	}
}
