package master

import (
	"net"
	"testing"
)

func TestASocketCoversAnAddressWhenItTakesAllThatOneOnItWould(t *testing.T) {
	for _, c := range []struct {
		have, want string
		covers     bool
	}{
		{"127.0.0.1:6789", "127.0.0.1:6789", true},
		{"127.0.0.1:6789", "127.0.0.1:6788", false},
		{"127.0.0.1:6789", "127.0.0.2:6789", false},
		{"127.0.0.1:6789", ":6789", false},
		{"[::]:6789", ":6789", true},
		{"[::]:6789", "0.0.0.0:6789", true},
		{"[::]:6789", "[::]:6789", true},
		{"0.0.0.0:6789", "0.0.0.0:6789", true},
		{"0.0.0.0:6789", "[::]:6789", false},
		{"0.0.0.0:6789", ":6789", false},
		{"[::]:6789", "127.0.0.1:6789", false}, // it would be open to others
		{"[::1]:6789", "[::1]:6789", true},
	} {
		have, err := net.ResolveTCPAddr("tcp", c.have)
		if err != nil {
			t.Fatal(err)
		}
		want, err := net.ResolveTCPAddr("tcp", c.want)
		if err != nil {
			t.Fatal(err)
		}
		if got := covers(have, want); got != c.covers {
			t.Errorf("%s covers %s: %t", c.have, c.want, got)
		}
	}
}
