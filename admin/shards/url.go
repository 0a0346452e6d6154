package shards

import (
	"errors"
	"strings"

	"github.com/wakecall/wakecall/registry"
)

var errHiddenPassword = errors.New("has *** for its password: type the password again when the address changes")

// unmaskURL is the URL that a form means. A hidden password stays with the address it was given for, so that nobody can
// have it sent elsewhere.
func unmaskURL(typed, stored string) (string, error) {
	if stored != "" && typed == registry.MaskURL(stored) {
		return stored, nil
	}
	if strings.Contains(typed, ":"+registry.HiddenPassword+"@") || strings.Contains(typed, "sentinel_password="+registry.HiddenPassword) {
		return "", errHiddenPassword
	}
	return typed, nil
}
