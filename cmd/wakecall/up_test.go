package main

import (
	"os"
	"strings"
	"testing"
)

// TestAReloadNeedsTheFileOfTheStart: while a deployment replaces it, the configuration stays as it was.
func TestAReloadNeedsTheFileOfTheStart(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(text string) {
		if err := os.WriteFile("wakecall.yaml", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("timers: 3\n")
	p := &program{}
	cmd := p.upCommand()
	cfg, err := p.load(cmd)
	if err != nil || cfg.Timers != 3 {
		t.Fatal(cfg, err)
	}
	reload := p.reload(cmd, cfg)
	if err := os.Remove("wakecall.yaml"); err != nil {
		t.Fatal(err)
	}
	if cfg, err := reload(); err == nil || !strings.Contains(err.Error(), "wakecall.yaml") {
		t.Errorf("without the file: %v, %v", cfg, err)
	}
	write("timers: 4\n")
	if cfg, err := reload(); err != nil || cfg.Timers != 4 {
		t.Errorf("with the new file: %v, %v", cfg, err)
	}
}

// TestAReloadFindsANewFile when the start had none.
func TestAReloadFindsANewFile(t *testing.T) {
	t.Chdir(t.TempDir())
	p := &program{}
	cmd := p.upCommand()
	cfg, err := p.load(cmd)
	if err != nil {
		t.Fatal(err)
	}
	reload := p.reload(cmd, cfg)
	if err := os.WriteFile("wakecall.yaml", []byte("timers: 4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if cfg, err := reload(); err != nil || cfg.Timers != 4 {
		t.Errorf("%v, %v", cfg, err)
	}
}
