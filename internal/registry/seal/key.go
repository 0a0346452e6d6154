package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/wakecall/wakecall/internal/disk"
)

// Key encrypts with AES-256-GCM. A nil Key cannot seal or open.
type Key []byte

// KeySize is the number of bytes of a Key.
const KeySize = 32

// keyError is the type of ErrKey, which is an error of the request, not of the database.
type keyError struct{}

func (keyError) Refusal() {}
func (keyError) Error() string {
	return "encrypted with another key: give all hosts the same registry.seal_key or data_dir/secret-key, or enter " +
		"the " +
		"secret again"
}

// ErrKey is returned for data encrypted with another key than this process has.
var ErrKey error = keyError{}

// ParseKey parses a key, KeySize bytes in hexadecimal digits. Its error completes a sentence.
func ParseKey(text string) (Key, error) {
	key, err := hex.DecodeString(strings.TrimSpace(text))
	if err != nil || len(key) != KeySize {
		return nil, fmt.Errorf("must be %[1]d hexadecimal digits; `openssl rand -hex %[2]d` prints a new key",
			2*KeySize, KeySize)
	}
	return key, nil
}

// ReadKey reads a key from a file.
func ReadKey(file string) (Key, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read secret key: %w", err)
	}
	key, err := ParseKey(string(text))
	if err != nil {
		return nil, fmt.Errorf(
			"the secret key in %s %w; restore it from a backup or copy it from another host", file, err)
	}
	return key, nil
}

// LoadKey is like ReadKey, but creates the file at the first start, readable only by its owner. If several processes
// create it at once, one wins.
func LoadKey(file string) (Key, error) {
	key, err := ReadKey(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	random := make([]byte, KeySize)
	_, _ = rand.Read(random) // never fails (crypto/rand)
	if err := disk.Create(file, hex.EncodeToString(random)+"\n"); err != nil {
		return nil, fmt.Errorf("create %s: %w", file, err)
	}
	return ReadKey(file)
}

// Seal encrypts a text that belongs to an object. It cannot be opened as that of another one.
func (k Key) Seal(object, text string) (string, error) {
	aead, err := k.aead()
	if err != nil {
		return "", err
	}
	nonce := make([]byte, aead.NonceSize())
	_, _ = rand.Read(nonce) // never fails (crypto/rand)
	return sealedMark + base64.StdEncoding.EncodeToString(aead.Seal(nonce, nonce, []byte(text), []byte(object))), nil
}

// Open decrypts a text sealed for the same object. Errors: ErrKey.
func (k Key) Open(object, sealed string) (string, error) {
	aead, err := k.aead()
	if err != nil {
		return "", err
	}
	b, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sealed, sealedMark))
	if err != nil || len(b) < aead.NonceSize() {
		return "", ErrKey
	}
	text, err := aead.Open(nil, b[:aead.NonceSize()], b[aead.NonceSize():], []byte(object))
	if err != nil {
		return "", ErrKey
	}
	return string(text), nil
}

func (k Key) aead() (cipher.AEAD, error) {
	if len(k) != KeySize {
		return nil, ErrKey
	}
	block, err := aes.NewCipher(k)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
