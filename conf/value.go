package conf

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
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

// ParseSize reads a whole number of bytes with an optional unit (B, KiB, MiB, GiB, or decimal KB, MB, GB).
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

// Priorities are the weights of high, normal and low, written 5:3:2.
type Priorities [3]int

func (p Priorities) String() string { return fmt.Sprintf("%d:%d:%d", p[0], p[1], p[2]) }

// ParsePriorities reads 5:3:2.
func ParsePriorities(s string) (Priorities, error) {
	bad := errors.New("is not three whole numbers from 1 to 100, for high, normal and low (write 5:3:2)")
	parts := strings.Split(s, ":")
	if len(parts) != 3 {
		return Priorities{}, bad
	}
	var p Priorities
	for i, t := range parts {
		n, err := strconv.Atoi(t)
		if err != nil || n < 1 || n > 100 {
			return Priorities{}, bad
		}
		p[i] = n
	}
	return p, nil
}

// Pattern is what Config.PriorityPattern documents: smooth weighted round robin. In each turn every priority gains its
// weight in credit, and the one with the most pays the sum of the weights for its turn. After that many turns all
// credits are zero again, so the pattern repeats.
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

// value is one key's place in a Config and its text form.
type value struct {
	set  func(texts []string) error // one text, or the members of a list; an error leaves the value as it was
	get  func() []string            // set(get()) changes nothing
	mask func(string) string        // hides passwords of a text; nil: there are none
}

// scalar makes the value of a key that takes one text.
func scalar(get func() string, set func(string) error) value {
	return value{
		get: func() []string { return []string{get()} },
		set: func(texts []string) error {
			if len(texts) != 1 {
				return errors.New("is a list, where one value is wanted")
			}
			return set(texts[0])
		},
	}
}

func text(p *string, check func(string) error) value {
	return scalar(func() string { return *p }, func(s string) error {
		if err := check(s); err != nil {
			return err
		}
		*p = s
		return nil
	})
}

func number(p *int, least, most int) value {
	return scalar(func() string { return strconv.Itoa(*p) }, func(s string) error {
		n, err := strconv.Atoi(s)
		if err != nil || n < least || n > most {
			return fmt.Errorf("is not a whole number from %d to %d", least, most)
		}
		*p = n
		return nil
	})
}

func duration(p *time.Duration) value {
	return scalar(func() string { return shortDuration(*p) }, func(s string) error {
		d, err := time.ParseDuration(s)
		if err != nil || d <= 0 {
			return errors.New("is not a duration above zero (write 500ms, 90s, 30m or 168h)")
		}
		*p = d
		return nil
	})
}

// shortDuration writes 2m and 168h where time.Duration writes 2m0s and 168h0m0s.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func size(p *Size, least, most Size) value {
	return scalar(func() string { return p.String() }, func(s string) error {
		n, err := ParseSize(s)
		if err != nil {
			return err
		}
		if n < least || n > most {
			return fmt.Errorf("is not a size from %v to %v", least, most)
		}
		*p = n
		return nil
	})
}

func weights(p *Priorities) value {
	return scalar(func() string { return p.String() }, func(s string) error {
		v, err := ParsePriorities(s)
		if err != nil {
			return err
		}
		*p = v
		return nil
	})
}

func dsn(p *Secret) value {
	v := scalar(func() string { return string(*p) }, func(s string) error {
		if err := checkDSN(s); err != nil {
			return err
		}
		*p = Secret(s)
		return nil
	})
	v.mask = maskURL
	return v
}

func checkDSN(s string) error {
	path, isSQLite := strings.CutPrefix(s, sqliteScheme)
	switch {
	case s == "":
		return nil
	case isSQLite && (path == "" || strings.HasPrefix(path, ":memory:")):
		return errors.New("names no file, and the processes must share one (write sqlite:PATH)")
	case !isSQLite && !strings.HasPrefix(s, "mysql://"):
		return errors.New("does not begin with mysql:// or sqlite: (write mysql://user:pw@tcp(host:3306)/wakecall or sqlite:PATH)")
	}
	return checkText(s)
}

func nodeList(p *[]Secret) value {
	return value{
		get: func() []string {
			texts := make([]string, 0, len(*p))
			for _, n := range *p {
				texts = append(texts, string(n))
			}
			return texts
		},
		set: func(texts []string) error {
			nodes, err := parseNodes(texts)
			if err != nil {
				return err
			}
			*p = nodes
			return nil
		},
		mask: maskURL,
	}
}

// betweenNodes finds the commas that separate URLs: those before a scheme. Others separate hosts, or stand in a password.
var betweenNodes = regexp.MustCompile(`,\s*([A-Za-z+]+://)`)

func parseNodes(texts []string) ([]Secret, error) {
	var nodes []Secret
	seen := map[string]bool{}
	for _, t := range texts {
		for u := range strings.SplitSeq(betweenNodes.ReplaceAllString(t, "\n$1"), "\n") {
			u = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(u), ","))
			if u == "" {
				continue
			}
			if err := checkText(u); err != nil {
				return nil, err
			}
			if _, err := ParseNode(u); err != nil {
				return nil, fmt.Errorf("is not the URL of a Redis (number %d of the list): %w", len(nodes)+1, err)
			}
			if seen[u] {
				return nil, fmt.Errorf("names one Redis twice (number %d of the list): remove one", len(nodes)+1)
			}
			seen[u] = true
			nodes = append(nodes, Secret(u))
		}
	}
	return nodes, nil
}

func networks(p *string) value {
	return value{
		get: func() []string { return []string{*p} },
		set: func(texts []string) error {
			n, err := parseNetworks(texts)
			if err != nil {
				return err
			}
			*p = n
			return nil
		},
	}
}

func parseNetworks(texts []string) (string, error) {
	members := strings.FieldsFunc(strings.Join(texts, ","), func(r rune) bool { return r == ',' || r == ' ' })
	if len(members) == 1 && (members[0] == "any" || members[0] == "public") {
		return members[0], nil
	}
	for _, m := range members {
		if _, err := netip.ParsePrefix(m); err != nil {
			return "", fmt.Errorf("is not any, public or a list of CIDRs: %q (write any, public or 10.0.0.0/8,192.168.1.0/24)", m)
		}
	}
	if len(members) == 0 {
		return "", errors.New("is empty (write any, public or CIDRs such as 10.0.0.0/8)")
	}
	return strings.Join(members, ","), nil
}

// checkText refuses what no path, address or URL has, and what JSON could not carry to the children.
func checkText(s string) error {
	if !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
		return errors.New("has control characters or is not UTF-8")
	}
	return nil
}

func checkNamed(s string) error {
	if s == "" {
		return errors.New("is empty: remove it for the default, or give a value")
	}
	return checkText(s)
}

func oneOf(names ...string) func(string) error {
	return func(s string) error {
		for _, n := range names {
			if s == n {
				return nil
			}
		}
		return fmt.Errorf("is not one of %s%s", strings.Join(names, ", "), didYouMean(s, names))
	}
}

func checkAddr(s string) error {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return errors.New("is not HOST:PORT (write 127.0.0.1:6789, or :6789 for every address)")
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return errors.New("has a port that is not a number from 0 to 65535")
	}
	if _, err := netip.ParseAddr(host); host != "" && err != nil && !hostName.MatchString(host) {
		return errors.New("has a host that is not a name or an address")
	}
	return nil
}

// checkPublicURL takes an address that people open.
func checkPublicURL(s string) error {
	if s == "" {
		return nil
	}
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("is not an address like https://wakecall.example.com/admin/")
	}
	return nil
}

var basePath = regexp.MustCompile(`^(/|(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+)$`)

func checkBasePath(s string) error {
	if !basePath.MatchString(s) {
		return errors.New("is not a path that begins with / and does not end with it (write / or /wakecall)")
	}
	return nil
}
