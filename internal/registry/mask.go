package registry

import (
	"errors"
	"strings"

	"github.com/wakecall/wakecall/conf/address"
)

// HiddenPassword is shown instead of a stored password.
const HiddenPassword = "***"

// MaskURL hides the secrets in a shard's URL: its password, and the sentinels' password. Users may edit a masked URL
// and send it back, so its mark needs no quotes in a shell.
func MaskURL(url string) string {
	return strings.ReplaceAll(address.Mask(url), address.Hidden, HiddenPassword)
}

var errHiddenPassword = errors.New("has *** for its password: enter the password again when you change the address")

// UnmaskURL returns the URL meant by a user who edited the masked form of the stored one. A hidden password is kept
// only if the address has not changed, so that nobody can have it sent elsewhere.
func UnmaskURL(typed, stored string) (string, error) {
	if stored != "" && typed == MaskURL(stored) {
		return stored, nil
	}
	if strings.Contains(typed, ":"+HiddenPassword+"@") || strings.Contains(typed, "sentinel_password="+HiddenPassword) {
		return "", errHiddenPassword
	}
	return typed, nil
}
