package conf

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// Size is a number of bytes, written 4096, 256KiB or 1GiB.
type Size int64

// Units of sizes.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
)

var sizeUnits = []struct {
	name string
	size Size
}{
	{"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"B", 1}, {"", 1},
}

// ParseSize parses a whole number of bytes with an optional unit (B, KiB, MiB, GiB, or decimal KB, MB, GB).
func ParseSize(s string) (Size, error) {
	for _, u := range sizeUnits {
		digits, ok := strings.CutSuffix(s, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/int64(u.size) {
			break
		}
		return Size(n) * u.size, nil
	}
	return 0, errors.New("is not a size (write 4096, 256KiB, 64MiB or 1GiB)")
}

func (s Size) String() string {
	for _, u := range sizeUnits[:3] {
		if s != 0 && s%u.size == 0 {
			return strconv.FormatInt(int64(s/u.size), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Size) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSize(string(text))
	return err
}

// Priorities are the weights of high, normal and low, written 5:3:2.
type Priorities [3]int

func (p Priorities) String() string { return fmt.Sprintf("%d:%d:%d", p[0], p[1], p[2]) }

// ParsePriorities parses the form 5:3:2.
func ParsePriorities(s string) (p Priorities, err error) {
	bad := errors.New("is not three whole numbers from 1 to 100, for high, normal and low (write 5:3:2)")
	parts := strings.Split(s, ":")
	if len(parts) != len(p) {
		return p, bad
	}
	for i, t := range parts {
		if p[i], err = strconv.Atoi(t); err != nil || p[i] < 1 || p[i] > 100 {
			return Priorities{}, bad
		}
	}
	return p, nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Priorities) UnmarshalText(text []byte) (err error) {
	*p, err = ParsePriorities(string(text))
	return err
}

// Pattern returns the order in which the priorities are reserved: one digit (0 high, 1 normal, 2 low) per turn. It
// repeats, and any sequence of as many turns as the sum of the weights contains each priority exactly as often as its
// weight.
//
// It is smooth weighted round robin: in each turn every priority gains its weight in credit, and the one with the most
// credit pays the sum of the weights for its turn. After that many turns all credits are zero again.
func (p Priorities) Pattern() string {
	sum := p[0] + p[1] + p[2]
	var credit Priorities
	pattern := make([]byte, sum)
	for turn := range pattern {
		best := 0
		for i := range p {
			credit[i] += p[i]
			if credit[i] > credit[best] {
				best = i
			}
		}
		credit[best] -= sum
		pattern[turn] = byte('0' + best)
	}
	return string(pattern)
}

// Nodes are URLs for ParseNode.
type Nodes []Secret

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *Nodes) UnmarshalText(text []byte) error {
	*n = nil
	for _, u := range splitNodes(string(text)) {
		*n = append(*n, Secret(u))
	}
	return nil
}

// betweenNodes matches the commas that separate URLs: those before a scheme. Other commas separate hosts or belong to a
// password.
var betweenNodes = regexp.MustCompile(`,\s*([A-Za-z+]+://)`)

func splitNodes(list string) (urls []string) {
	for u := range strings.SplitSeq(betweenNodes.ReplaceAllString(list, "\n$1"), "\n") {
		if u = strings.Trim(u, ", \t\r"); u != "" {
			urls = append(urls, u)
		}
	}
	return urls
}
