package conf

import (
	"fmt"
	"net"
	"strings"
)

// proxies is a list of CIDRs that may be empty.
func proxies(p *string) value {
	return value{
		get: func() []string { return []string{*p} },
		set: func(texts []string) error {
			members := cidrs(strings.Join(texts, ","))
			for _, m := range members {
				if _, _, err := net.ParseCIDR(m); err != nil {
					return fmt.Errorf("is not a list of CIDRs: %q (write 127.0.0.1/32,10.0.0.0/8)", m)
				}
			}
			*p = strings.Join(members, ",")
			return nil
		},
	}
}

func cidrs(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

// Proxies are the networks of TrustedProxies.
func (a Admin) Proxies() []*net.IPNet {
	var list []*net.IPNet
	for _, text := range cidrs(a.TrustedProxies) {
		if _, n, err := net.ParseCIDR(text); err == nil { // checked when it was set
			list = append(list, n)
		}
	}
	return list
}
