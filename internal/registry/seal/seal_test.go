package seal

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestOneSecretKeyIsMade(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secret-key")
	keys := make([]Key, 8)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			var err error
			if keys[i], err = LoadKey(file); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, k := range keys {
		if !bytes.Equal(k, keys[0]) || len(k) != KeySize {
			t.Errorf("keys %x and %x", k, keys[0])
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestAKeyOfAnotherLengthIsRefused with the file, the expected form and the way out, and without the key itself.
func TestAKeyOfAnotherLengthIsRefused(t *testing.T) {
	t.Parallel()
	good := strings.Repeat("0f", KeySize)
	for _, text := range []string{good, good + "\n", strings.ToUpper(good)} {
		if key, err := ParseKey(text); err != nil || len(key) != KeySize {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{"", "damaged", good[2:], good + "0f", good[1:], "-" + good[1:]} {
		file := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, read := range []func(string) (Key, error){ReadKey, LoadKey} {
			_, err := read(file)
			if err == nil || !strings.Contains(err.Error(), file) ||
				!strings.Contains(err.Error(), "64 hexadecimal digits") ||
				!strings.Contains(err.Error(), "backup") || strings.Contains(err.Error(), "0f0f") {
				t.Errorf("%q: %v", text, err)
			}
		}
	}
}

// TestASealedTextIsNotPrinted by any verb of fmt, nor logged.
func TestASealedTextIsNotPrinted(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	secret := Text("MARKsecret")
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T%c", "%10.20s"} {
		fmt.Fprintf(&b, verb+"\n", secret)
		fmt.Fprintf(&b, verb+"\n", struct{ Password Text }{secret})
		fmt.Fprintf(&b, verb+"\n", []Text{secret})
	}
	fmt.Fprintln(&b, secret, &secret, fmt.Errorf("with %w and %v", errors.New("x"), secret))
	slog.New(slog.NewTextHandler(&b, nil)).Error("m", "password", secret)
	slog.New(slog.NewJSONHandler(&b, nil)).Error("m", "password", secret)
	for _, shown := range []string{"MARK", "4d41524b", "4D41524B", "77 65 82 75"} {
		if strings.Contains(b.String(), shown) {
			t.Errorf("it is printed as %s:\n%s", shown, b.String())
		}
	}
}
