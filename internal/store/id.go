package store

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/wakecall/wakecall/internal/log/printable"
)

// maxID is the longest id, in bytes.
const maxID = 128

// CheckID accepts 1 to 128 bytes of visible UTF-8 without a space at the beginning or end. Two ids that look the same
// would differ by an ignorable character.
func CheckID(id string) error {
	switch {
	case id == "":
		return errors.New("empty")
	case len(id) > maxID:
		return fmt.Errorf("%d bytes; the limit is %d", len(id), maxID)
	case id[0] == ' ' || id[len(id)-1] == ' ':
		return errors.New("begins or ends with a space")
	case !utf8.ValidString(id):
		return errors.New("not valid UTF-8")
	}
	for _, r := range id {
		if !unicode.IsPrint(r) || printable.Ignorable(r) {
			return fmt.Errorf("%+q is not a printable character", r)
		}
	}
	return nil
}

var idEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// NewID makes an id of 26 characters. The first ten order ids by the time they were made.
func NewID() string {
	var b [16]byte
	ms := uint64(time.Now().UnixMilli())
	binary.BigEndian.PutUint64(b[:], ms<<16)
	_, _ = rand.Read(b[6:]) // never fails (crypto/rand)
	return idEncoding.EncodeToString(b[:])
}
