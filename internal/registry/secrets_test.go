package registry

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTokensAreComparedByTheirHashes: the time of a comparison must reveal nothing about a token. Times are too noisy
// to prove that, so this checks the code of the comparison: it hashes the given token, looks up the hash, and compares
// in constant time.
func TestTokensAreComparedByTheirHashes(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "tokens.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var calls []string
	compared := false
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Name.Name != "Token" || f.Recv == nil {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				switch c := n.Fun.(type) {
				case *ast.Ident:
					calls = append(calls, c.Name)
				case *ast.SelectorExpr:
					calls = append(calls, c.Sel.Name)
				}
			case *ast.BinaryExpr:
				if id, ok := n.X.(*ast.Ident); ok && id.Name == "secret" {
					compared = true
				}
			}
			return true
		})
	}
	if !slices.Contains(calls, "Sum256") || !slices.Contains(calls, "ConstantTimeCompare") || compared {
		t.Errorf("Token calls %v; compares the secret itself: %v", calls, compared)
	}
}

// TestNoTokenIsKept: neither the snapshot, on disk or in memory, nor the database contains the tokens that clients
// send.
func TestNoTokenIsKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, err := Open(
		Options{
			DSN:          "sqlite:" + filepath.Join(dir, "r.db"),
			Migrate:      MigrateOlder,
			SnapshotFile: filepath.Join(dir, "snapshot"),
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	secret, _, err := r.CreateToken(t.Context(), "test", "ci", []Right{RightPush}, []string{"*"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := r.Snapshot().Token(secret); !ok {
		t.Fatal("the token is not known")
	}
	for _, near := range []string{"", secret[:len(secret)-1], secret + "x", " " + secret, strings.ToUpper(secret),
		HashToken(secret)} {
		if _, ok := r.Snapshot().Token(near); ok {
			t.Errorf("%q is accepted as the token", near)
		}
	}
	kept, err := json.Marshal(r.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, b...)
	}
	if bytes.Contains(kept, []byte(secret)) {
		t.Error("the token itself is stored")
	}
}
