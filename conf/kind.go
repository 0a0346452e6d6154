package conf

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// kind defines the syntax of a key's values.
type kind struct {
	check  func(string) error
	split  func(string) []string // splits a list, which is stored with commas; nil: a single value
	normal func(string) string   // returns the stored form; nil: as written
	secret bool                  // the values are URLs that contain passwords
}

var (
	duration = kind{check: checkDuration}
	cidrs    = kind{check: checkCIDRs, split: commaList}
	networks = kind{check: checkNetworks, split: commaList}
	gateway  = kind{check: checkGatewayAddr, normal: gatewayAddr}
	dsn      = kind{check: checkDSN, secret: true}
	nodeURLs = kind{check: checkNodes, split: splitNodes, secret: true}
)

// show returns a value without its passwords.
func (k kind) show(text string) string {
	if !k.secret {
		return text
	}
	urls := splitNodes(text)
	for i, u := range urls {
		urls[i] = maskURL(u)
	}
	return strings.Join(urls, ",")
}

func text(check func(string) error) kind { return kind{check: check} }

func oneOf(names ...string) kind {
	return text(func(s string) error {
		if slices.Contains(names, s) {
			return nil
		}
		return fmt.Errorf("is not one of %s%s", strings.Join(names, ", "), didYouMean(s, names))
	})
}

func number(least, most int) kind {
	return text(func(s string) error {
		n, err := strconv.Atoi(s)
		if err != nil || n < least || n > most || s != strconv.Itoa(n) { // 010 would be octal to koanf
			return fmt.Errorf("is not a whole number from %d to %d", least, most)
		}
		return nil
	})
}

func size(least, most Size) kind {
	return text(func(s string) error {
		n, err := ParseSize(s)
		if err == nil && (n < least || n > most) {
			err = fmt.Errorf("is not a size from %v to %v", least, most)
		}
		return err
	})
}

func checkDuration(s string) error {
	if d, err := time.ParseDuration(s); err != nil || d <= 0 {
		return errors.New("is not a duration above zero (write 500ms, 90s, 30m or 168h)")
	}
	return nil
}

func checkPriorities(s string) error {
	_, err := ParsePriorities(s)
	return err
}

func checkDSN(s string) error {
	path, isSQLite := strings.CutPrefix(s, sqliteScheme)
	switch {
	case s == "":
		return nil
	case isSQLite && (path == "" || strings.HasPrefix(path, ":memory:")):
		return errors.New("names no file; the processes share one (write sqlite:PATH)")
	case !isSQLite && !strings.HasPrefix(s, "mysql://"):
		return errors.New("does not begin with mysql:// or sqlite: " +
			"(write mysql://user:pw@tcp(host:3306)/wakecall or sqlite:PATH)")
	}
	return checkText(s)
}

func checkNodes(s string) error {
	urls := splitNodes(s)
	for i, u := range urls {
		if err := checkText(u); err != nil {
			return err
		}
		if _, err := ParseNode(u); err != nil {
			return fmt.Errorf("is not the URL of a Redis (number %d of the list): %w", i+1, err)
		}
		if slices.Contains(urls[:i], u) {
			return fmt.Errorf("names one Redis twice (number %d of the list): remove one", i+1)
		}
	}
	return nil
}

func checkCIDRs(s string) error {
	for _, m := range commaList(s) {
		if _, err := netip.ParsePrefix(m); err != nil {
			return fmt.Errorf("is not a list of CIDRs: %q (write 127.0.0.1/32,10.0.0.0/8)", m)
		}
	}
	return nil
}

func checkNetworks(s string) error {
	if s == "any" || s == "public" {
		return nil
	}
	if err := checkCIDRs(s); err != nil || len(commaList(s)) == 0 {
		return errors.New("is not any, public or a list of CIDRs (write any, public or 10.0.0.0/8,192.168.1.0/24)")
	}
	return nil
}

func commaList(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}

// checkText rejects characters that no path, address or URL contains, and that JSON could not carry to the children.
func checkText(s string) error {
	if !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
		return errors.New("has control characters or is not UTF-8")
	}
	return nil
}

func notEmpty(s string) error {
	if s == "" {
		return errors.New("is empty: remove it for the default, or give a value")
	}
	return checkText(s)
}

func checkAddr(s string) error {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return errors.New("is not HOST:PORT (write 127.0.0.1:6789, or :6789 for every address)")
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return errors.New("has a port that is not a number from 0 to 65535")
	}
	if host != "" && !isHost(host) {
		return errors.New("has a host that is not a name or an address")
	}
	return nil
}

// gatewayAddr adds a host to a bare port. The host is this machine, because most of the old protocols have no
// passwords.
func gatewayAddr(s string) string {
	if port := strings.TrimPrefix(s, ":"); port != "" && !strings.Contains(port, ":") {
		return "127.0.0.1:" + port
	}
	return s
}

// checkGatewayAddr also accepts an empty address.
func checkGatewayAddr(s string) error {
	if s == "" {
		return nil
	}
	if err := checkAddr(s); err != nil {
		return errors.New("is not PORT or HOST:PORT (write 11300 for this machine alone, 0.0.0.0:11300 for every address)")
	}
	return nil
}

func checkTimeZone(s string) error {
	if _, err := time.LoadLocation(s); err != nil || s == "" {
		return errors.New("is not a time zone of this machine (write Local, UTC or Asia/Shanghai)")
	}
	return nil
}

var poolName = regexp.MustCompile(`^[-_A-Za-z0-9]{1,32}$`)

func checkPools(s string) error {
	seen := map[string]bool{}
	for name := range strings.SplitSeq(s, ",") {
		if !poolName.MatchString(name) || seen[name] {
			return errors.New("is not a list of names, each once and of A-Z a-z 0-9 - _, joined with commas")
		}
		seen[name] = true
	}
	return nil
}

// checkPublicURL accepts an address that people can open.
func checkPublicURL(s string) error {
	if s == "" {
		return nil
	}
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" ||
		u.User != nil || u.RawQuery != "" || u.Fragment != "" {
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
