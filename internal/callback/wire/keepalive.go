package wire

import (
	"strconv"
	"strings"
	"time"
)

// limit keeps idle connections for less than the endpoint announces (Keep-Alive: timeout=5), so that no call uses one
// that the endpoint is closing.
func (p *Pool) limit(c *connections, header string) {
	announced := announcedIdle(header)
	if announced <= 0 {
		return
	}
	keep := max(announced-idleMargin, announced/2, minIdle)
	p.mu.Lock()
	shorter := keep < p.keep
	if shorter {
		p.keep = keep
	}
	p.mu.Unlock()
	if shorter {
		p.retire(c)
	}
}

// announcedIdle returns the timeout in a Keep-Alive header, or 0.
func announcedIdle(header string) time.Duration {
	for part := range strings.SplitSeq(header, ",") {
		name, value, _ := strings.Cut(part, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "timeout") {
			continue
		}
		seconds, err := strconv.ParseUint(strings.Trim(value, " \t\""), 10, 16)
		if err != nil {
			return 0
		}
		return max(time.Duration(seconds)*time.Second, minIdle)
	}
	return 0
}
