package registry

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// Sealed is a text in a setting that is encrypted where it is stored and hidden in the audit trail. Its JSON is for PutSetting and Setting
// only: it shows the text.
type Sealed string

// String hides it, so that no log shows it.
func (s Sealed) String() string {
	if s == "" {
		return ""
	}
	return mask
}

// Format hides it from every verb, fitting or not.
func (s Sealed) Format(w fmt.State, _ rune) { _, _ = io.WriteString(w, s.String()) }

// LogValue hides it from logs in JSON. A struct that has one is not for logs.
func (s Sealed) LogValue() slog.Value { return slog.StringValue(s.String()) }

// A sealed text is told from others by how it begins, which nothing that a person can type does.
const (
	openMark   = "\x00open:"
	sealedMark = "\x00sealed:"
)

// MarshalJSON implements json.Marshaler.
func (s Sealed) MarshalJSON() ([]byte, error) { return json.Marshal(openMark + string(s)) }

// UnmarshalJSON implements json.Unmarshaler.
func (s *Sealed) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	if strings.HasPrefix(text, sealedMark) {
		return ErrSecretKey
	}
	*s = Sealed(strings.TrimPrefix(text, openMark))
	return nil
}

// ErrSecretKey is for what was encrypted under another key than this process has.
var ErrSecretKey = errors.New("it is encrypted under another key: give all hosts the same data_dir/secret-key, or enter the secret again")

// LoadSecretKey reads the key for what must be kept encrypted, and makes it at the first start: 32 random bytes in hex, readable by its
// owner only. Of processes that make it at once one wins.
func LoadSecretKey(file string) ([]byte, error) {
	key, err := readSecretKey(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	key = make([]byte, secretKeyBytes)
	_, _ = rand.Read(key) // never fails (crypto/rand)
	f, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+leftover)
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", file, err)
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.WriteString(hex.EncodeToString(key) + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, fmt.Errorf("make %s: %w", file, err)
	}
	if err := os.Link(f.Name(), file); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make %s: %w", file, err)
	}
	return readSecretKey(file)
}

const secretKeyBytes = 32 // AES-256

func readSecretKey(file string) ([]byte, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the secret key: %w", err)
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(b)))
	if err != nil || len(key) != secretKeyBytes {
		return nil, fmt.Errorf("%s is not a secret key (%d bytes in hex): restore it from a backup, or remove it and enter the SMTP password and "+
			"the like again", file, secretKeyBytes)
	}
	return key, nil
}

// seal encrypts a text for one place (AES-256-GCM); it cannot be read back from another.
func seal(key []byte, place, text string) (string, error) {
	aead, err := sealer(key)
	if err != nil {
		return "", err
	}
	nonce := make([]byte, aead.NonceSize())
	_, _ = rand.Read(nonce) // never fails (crypto/rand)
	return sealedMark + base64.StdEncoding.EncodeToString(aead.Seal(nonce, nonce, []byte(text), []byte(place))), nil
}

func unseal(key []byte, place, sealed string) (string, error) {
	aead, err := sealer(key)
	if err != nil {
		return "", err
	}
	b, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sealed, sealedMark))
	if err != nil || len(b) < aead.NonceSize() {
		return "", ErrSecretKey
	}
	text, err := aead.Open(nil, b[:aead.NonceSize()], b[aead.NonceSize():], []byte(place))
	if err != nil {
		return "", ErrSecretKey
	}
	return string(text), nil
}

func sealer(key []byte) (cipher.AEAD, error) {
	if len(key) != secretKeyBytes {
		return nil, ErrSecretKey
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// eachText applies f to every text of a decoded JSON value.
func eachText(v any, f func(string) (string, error)) (any, error) {
	var err error
	switch x := v.(type) {
	case string:
		return f(x)
	case []any:
		for i := range x {
			if x[i], err = eachText(x[i], f); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for name := range x {
			if x[name], err = eachText(x[name], f); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// mapTexts is eachText on JSON text. Numbers stay as they are written.
func mapTexts(raw []byte, f func(string) (string, error)) ([]byte, error) {
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	v, err := eachText(v, f)
	if err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

// sealJSON encrypts the Sealed texts of a setting.
func sealJSON(key []byte, place string, raw []byte) ([]byte, error) {
	return mapTexts(raw, func(s string) (string, error) {
		text, open := strings.CutPrefix(s, openMark)
		if !open {
			return s, nil
		}
		if text == "" {
			return openMark, nil
		}
		return seal(key, place, text)
	})
}

func unsealJSON(key []byte, place string, raw []byte) ([]byte, error) {
	return mapTexts(raw, func(s string) (string, error) {
		if !strings.HasPrefix(s, sealedMark) {
			return s, nil
		}
		text, err := unseal(key, place, s)
		return openMark + text, err
	})
}

// maskJSON shows a setting's Sealed texts by their fingerprints.
func maskJSON(raw []byte) json.RawMessage {
	masked, err := mapTexts(raw, func(s string) (string, error) {
		if text, open := strings.CutPrefix(s, openMark); open && text != "" {
			return mask + fingerprint(text), nil
		}
		return strings.TrimPrefix(s, openMark), nil
	})
	if err != nil {
		return json.RawMessage("null")
	}
	return masked
}
