package queue

import (
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// maxID is the longest id, in bytes.
const maxID = 128

// CheckID accepts 1 to 128 bytes of printable UTF-8 without a space at the beginning or end.
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
		if !unicode.IsPrint(r) {
			return fmt.Errorf("%+q is not a printable character", r)
		}
	}
	return nil
}
