// Package seal encrypts the secrets in an installation's database, and hides them from logs and pages.
package seal

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// Text is a text in a setting that is stored encrypted, and hidden in the audit trail. Its JSON contains the plain
// text, and is only for Key.SealJSON and Key.OpenJSON.
type Text string

// Mask replaces a secret.
const Mask = "***"

// String hides the text from logs.
func (t Text) String() string {
	if t == "" {
		return ""
	}
	return Mask
}

// Format hides the text from every verb, even unsuitable ones.
func (t Text) Format(w fmt.State, _ rune) { _, _ = io.WriteString(w, t.String()) }

// LogValue hides the text from logs in JSON. Do not log a struct that contains one.
func (t Text) LogValue() slog.Value { return slog.StringValue(t.String()) }

// Marks at the beginning of a text in JSON, which nobody can type.
const (
	openMark   = "\x00open:"
	sealedMark = "\x00sealed:"
)

// MarshalJSON implements json.Marshaler.
func (t Text) MarshalJSON() ([]byte, error) { return json.Marshal(openMark + string(t)) }

// UnmarshalJSON implements json.Unmarshaler.
func (t *Text) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	if strings.HasPrefix(text, sealedMark) {
		return ErrKey
	}
	*t = Text(strings.TrimPrefix(text, openMark))
	return nil
}

// SealJSON encrypts the Texts of a JSON value.
func (k Key) SealJSON(object string, raw []byte) ([]byte, error) {
	return mapTexts(raw, func(s string) (string, error) {
		text, open := strings.CutPrefix(s, openMark)
		if !open || text == "" {
			return s, nil
		}
		return k.Seal(object, text)
	})
}

// OpenJSON decrypts a value sealed by SealJSON for the same object. Errors: ErrKey.
func (k Key) OpenJSON(object string, raw []byte) ([]byte, error) {
	return mapTexts(raw, func(s string) (string, error) {
		if !strings.HasPrefix(s, sealedMark) {
			return s, nil
		}
		text, err := k.Open(object, s)
		return openMark + text, err
	})
}

// MaskJSON replaces the Texts of an open JSON value with their fingerprints.
func MaskJSON(raw []byte) json.RawMessage {
	masked, err := mapTexts(raw, func(s string) (string, error) {
		if text, open := strings.CutPrefix(s, openMark); open && text != "" {
			return Fingerprint(text), nil
		}
		return strings.TrimPrefix(s, openMark), nil
	})
	if err != nil {
		return json.RawMessage("null")
	}
	return masked
}

// SameJSON reports whether two JSON values are equal, apart from layout.
func SameJSON(a, b []byte) bool {
	same := func(s string) (string, error) { return s, nil }
	x, errX := mapTexts(a, same)
	y, errY := mapTexts(b, same)
	return errX == nil && errY == nil && string(x) == string(y)
}

// Fingerprint returns a text that distinguishes secrets but does not help to guess them.
func Fingerprint(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return Mask + hex.EncodeToString(sum[:2])
}

// IsFingerprint reports whether a text looks like a result of Fingerprint.
func IsFingerprint(text string) bool {
	sum, ok := strings.CutPrefix(text, Mask)
	_, err := hex.DecodeString(sum)
	return ok && err == nil && len(sum) == 4
}

// Sealed reports whether a text is a result of Key.Seal.
func Sealed(text string) bool { return strings.HasPrefix(text, sealedMark) }

// mapTexts applies f to every string of a JSON value. Numbers keep their notation.
func mapTexts(raw []byte, f func(string) (string, error)) ([]byte, error) {
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	v, err := mapValue(v, f)
	if err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

func mapValue(v any, f func(string) (string, error)) (any, error) {
	var err error
	switch x := v.(type) {
	case string:
		return f(x)
	case []any:
		for i := range x {
			if x[i], err = mapValue(x[i], f); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for name := range x {
			if x[name], err = mapValue(x[name], f); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}
