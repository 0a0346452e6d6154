package database

import (
	"strings"
	"testing"
)

// TestAPasswordIsPercentEncoded as in the URL of a Redis, or the error says how.
func TestAPasswordIsPercentEncoded(t *testing.T) {
	for user, want := range map[string]string{"u:p%40s%25%2F%3A": "u p@s%/:", "u%3Ax:a/b@c": "u:x a/b@c", "u:a+b": "u a+b"} {
		a, err := parseDSN("mysql://" + user + "@tcp(h:3306)/db")
		if err != nil || a.mysql.User+" "+a.mysql.Passwd != want {
			t.Errorf("%s: %v, want %s", user, err, want)
		}
	}
	if _, err := parseDSN("mysql://u:50%off@tcp(h:3306)/db"); err == nil || !strings.Contains(err.Error(), "%25") {
		t.Errorf("%v", err)
	}
}
